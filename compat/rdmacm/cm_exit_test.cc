// What a program still does after it has called exit(): in exit handlers and static destructors.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/settings.h"
#include "stack/base/eventually_for_test.h"

namespace pollux::compat {
namespace {

// Destroys what a program that calls exit() has left.
void DestroyLeftover(rdma_cm_id* id) {
  if (id == nullptr) return;
  if (rdma_disconnect(id) != -1 || errno != EINVAL) _exit(2);
  rdma_destroy_qp(id);
  if (id->qp != nullptr || rdma_destroy_id(id) != 0) _exit(3);
}

struct Leftover {
  ~Leftover() { DestroyLeftover(id); }
  rdma_cm_id* id = nullptr;
} leftover;

// A destructor function with a priority runs after the runtime's, which has none.
rdma_cm_id* leftover_after_runtime = nullptr;
__attribute__((destructor(101))) void DestroyAfterRuntime() {
  DestroyLeftover(leftover_after_runtime);
}

// A connection that is open when the program calls exit().
struct OpenConnection {
  ~OpenConnection() {
    if (id == nullptr) return;
    rdma_cm_event* event = nullptr;
    if (rdma_disconnect(id) != 0 || rdma_get_cm_event(id->channel, &event) != 0) _exit(2);
    if (event->event != RDMA_CM_EVENT_DISCONNECTED || rdma_ack_cm_event(event) != 0) _exit(3);
  }
  rdma_cm_id* id = nullptr;
} open_connection;

// An exit handler.
void SendLastMessage() {
  const rdma_cm_id* const id = open_connection.id;
  if (id == nullptr) return;
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_req_notify_cq(id->send_cq, 0) != 0 || ibv_post_send(id->qp, &send, &bad) != 0) _exit(4);
  ibv_cq* announced = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(id->send_cq_channel, &announced, &context) != 0) _exit(5);
  ibv_wc completion{};
  if (ibv_poll_cq(announced, 1, &completion) != 1 || completion.status != IBV_WC_SUCCESS) _exit(6);
}

class CmExitTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv(kSettingsVariable, kPortOfOne, 1);
    std::atexit(SendLastMessage);  // before the device is opened
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(CmExitTest, DestructorsMayDestroyLeftoverObjects) {
  const auto leave = [] {
    for (rdma_cm_id** id : {&leftover.id, &leftover_after_runtime}) {
      if (rdma_create_id(nullptr, id, nullptr, RDMA_PS_TCP) != 0) _exit(4);
      if (Bind(*id, kAddressOfOne, 0) != 0 || MakeQp(*id) != 0) _exit(5);
    }
    std::exit(0);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

// With an adapter, connections live until the process is gone.
TEST_F(CmExitTest, ExitHandlersAndStaticDestructorsMayUseAConnection) {
  const auto leave = [] {
    alarm(kHangGuard.count());
    rdma_event_channel* own = rdma_create_event_channel();
    rdma_cm_id* listener = nullptr;
    if (rdma_create_id(own, &listener, nullptr, RDMA_PS_TCP) != 0) _exit(1);
    if (Bind(listener, kAddressOfOne, 7477) != 0 || rdma_listen(listener, 1) != 0) _exit(7);
    rdma_event_channel* others = rdma_create_event_channel();
    rdma_cm_id* peer = Ask(7477, others);
    rdma_cm_id* request = AwaitEvent(own, RDMA_CM_EVENT_CONNECT_REQUEST);
    ibv_recv_wr receive{};
    ibv_recv_wr* bad = nullptr;
    if (MakeQp(request) != 0 || ibv_post_recv(request->qp, &receive, &bad) != 0) _exit(8);
    if (rdma_accept(request, nullptr) != 0) _exit(9);
    for (rdma_event_channel* channel : {own, others}) {
      AwaitEvent(channel, RDMA_CM_EVENT_ESTABLISHED);
    }
    open_connection.id = peer;
    std::exit(0);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace pollux::compat
