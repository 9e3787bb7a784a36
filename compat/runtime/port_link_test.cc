#include "compat/runtime/port_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "compat/verbs/objects.h"

namespace pollux::compat {
namespace {

class PortLinkTest : public testing::Test {
 protected:
  static std::unique_ptr<Context> MakeContext() {
    auto context = std::make_unique<Context>(nullptr);
    context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    fcntl(context->async_events.fd(), F_SETFL, O_NONBLOCK);
    return context;
  }
  // What the program has not been told yet.
  static std::vector<ibv_event_type> Take(Context& context) {
    std::vector<ibv_event_type> taken;
    ibv_async_event event{};
    while (ibv_get_async_event(&context.context, &event) == 0) {
      taken.push_back(event.event_type);
      EXPECT_EQ(event.element.port_num, 1);
      ibv_ack_async_event(&event);
    }
    EXPECT_EQ(errno, EAGAIN);
    return taken;
  }
  static ibv_port_state Shown(const PortLink& link, ibv_port_state state) {
    ibv_port_attr attr{};
    attr.state = state;
    link.Show(&attr);
    return attr.state;
  }
};

TEST_F(PortLinkTest, EachContextGetsTheEvents) {
  PortLink link(false);
  const std::unique_ptr<Context> first = MakeContext(), second = MakeContext();
  link.Add(&first->async_events);
  link.Add(&second->async_events);
  link.OnPortEvent(1, IBV_EVENT_PORT_ERR);
  link.Remove(&second->async_events);
  link.OnPortEvent(1, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(Take(*first), (std::vector{IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE}));
  EXPECT_EQ(Take(*second), std::vector{IBV_EVENT_PORT_ERR});
  EXPECT_TRUE(Take(*first).empty());
}

TEST_F(PortLinkTest, OnlyTheLatestEventOfEachKindIsQueued) {
  PortLink link(false);
  const std::unique_ptr<Context> context = MakeContext();
  link.Add(&context->async_events);
  for (int times = 0; times < 1000; ++times) {
    link.OnPortEvent(1, IBV_EVENT_PORT_ERR);
    link.OnPortEvent(1, IBV_EVENT_PORT_ACTIVE);
  }
  link.OnPortEvent(1, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(Take(*context), (std::vector{IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR}));
}

TEST_F(PortLinkTest, ShowsTheStateOfThePort) {
  const PortLink link(false);
  EXPECT_EQ(Shown(link, IBV_PORT_DOWN), IBV_PORT_DOWN);
  EXPECT_EQ(Shown(link, IBV_PORT_ACTIVE), IBV_PORT_ACTIVE);
}

TEST_F(PortLinkTest, AMemifIsShownAsUpUntilItsPeerHasConnectedOnce) {
  PortLink link(true);
  EXPECT_EQ(Shown(link, IBV_PORT_DOWN), IBV_PORT_ACTIVE);
  link.OnPortEvent(1, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(Shown(link, IBV_PORT_ACTIVE), IBV_PORT_ACTIVE);
  link.OnPortEvent(1, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(Shown(link, IBV_PORT_DOWN), IBV_PORT_DOWN);
}

}  // namespace
}  // namespace pollux::compat
