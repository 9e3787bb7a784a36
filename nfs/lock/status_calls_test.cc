#include "nfs/lock/status_calls.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "oncrpc/service_call_for_test.h"

namespace pollux::nfs {
namespace {

const Gid kHost = Gid::FromIpv4(0x0A000001);

class StatusCallsTest : public testing::Test {
 protected:
  template <class Args>
  std::vector<uint8_t> Ask(NsmProcedure procedure, const Args& args, bool connected = true) {
    const oncrpc::CallHeader header{
        .program = kNsmProgram, .version = kNsmV1, .procedure = static_cast<uint32_t>(procedure)};
    return oncrpc::AskService(
               StatusCalls::kProgram, header, args, kHost,
               [this](oncrpc::ServiceCall call) { calls_.Serve(std::move(call)); }, connected)
        .get();
  }
  template <class Args>
  oncrpc::AcceptStatus StatusOf(NsmProcedure procedure, const Args& args) {
    const std::vector<uint8_t> message = Ask(procedure, args);
    oncrpc::ReplyHeader reply;
    EXPECT_EQ(oncrpc::ParseReply(message, &reply), message.size());
    return reply.accept_status;
  }

  bool can_act_ = true;
  uint32_t state_ = 0;
  std::optional<std::string> name_;
  StatusCalls calls_{[this](const Gid& host, uint32_t state, std::optional<std::string_view> name) {
    EXPECT_EQ(host, kHost);
    state_ = state;
    name_.reset();
    if (name.has_value()) name_ = *name;
    return can_act_;
  }};
};

TEST_F(StatusCallsTest, NotifyReportsTheRestartOfTheSender) {
  EXPECT_EQ(StatusOf(NsmProcedure::kNotify, StatChge{.mon_name = {"guest"}, .state = 5}),
            oncrpc::AcceptStatus::kSuccess);
  EXPECT_EQ(state_, 5u);
  EXPECT_FALSE(name_.has_value());
  can_act_ = false;
  EXPECT_TRUE(Ask(NsmProcedure::kNotify, StatChge{.mon_name = {"guest"}, .state = 7}).empty());
}

TEST_F(StatusCallsTest, NotifyByUdpMustNameTheHost) {
  const StatChge change{.mon_name = {"guest"}, .state = 5};
  EXPECT_FALSE(Ask(NsmProcedure::kNotify, change, /*connected=*/false).empty());
  EXPECT_EQ(name_, "guest");
}

TEST_F(StatusCallsTest, UnknownProceduresAndMalformedArgumentsAreRefused) {
  EXPECT_EQ(StatusOf(NsmProcedure::kNull, oncrpc::Void()), oncrpc::AcceptStatus::kSuccess);
  EXPECT_EQ(StatusOf(NsmProcedure::kNotify, oncrpc::Void()),
            oncrpc::AcceptStatus::kGarbageArguments);
  EXPECT_EQ(StatusOf(NsmProcedure{2}, oncrpc::Void()), oncrpc::AcceptStatus::kProcedureUnavailable);
  EXPECT_EQ(state_, 0u);
}

}  // namespace
}  // namespace pollux::nfs
