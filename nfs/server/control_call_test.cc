#include "nfs/server/control_call.h"

#include <gtest/gtest.h>

#include "nfs/server/control_for_test.h"

namespace pollux::nfs {
namespace {

using oncrpc::AcceptStatus;

constexpr ControlProgram kProgram = {.program = 77, .low = 2, .high = 4};

struct Number {
  uint64_t value = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.value);
  }
};

// Twice the argument; procedure 1 is none, of procedure 2 nothing comes, 3 is for others.
void Serve(ControlCall call) {
  Number number;
  if (call.procedure() == 1) return call.Fail(AcceptStatus::kProcedureUnavailable);
  if (call.procedure() == 2) return;
  if (call.procedure() == 3) return call.Deny(AuthStatus::kRejectedCred);
  if (!call.Read(&number)) return call.Fail(AcceptStatus::kGarbageArguments);
  call.Answer(Number{number.value * 2});
}

class ControlCallTest : public testing::Test {
 protected:
  template <class Args>
  oncrpc::ReplyHeader Ask(const oncrpc::CallHeader& header, const Args& args) {
    message_ = AskControl(kProgram, header, args, {}, Serve).get();
    oncrpc::ReplyHeader reply;
    const size_t begin = oncrpc::ParseReply(message_, &reply);
    EXPECT_GT(begin, 0u);
    EXPECT_EQ(reply.xid, header.xid);
    results_ = absl::MakeConstSpan(message_).subspan(begin);
    return reply;
  }
  std::vector<uint8_t> message_;
  absl::Span<const uint8_t> results_;
};

TEST_F(ControlCallTest, AnswersInEachOfItsVersions) {
  for (uint32_t version = 2; version <= 4; ++version) {
    const auto reply = Ask({.xid = version, .program = 77, .version = version}, Number{21});
    EXPECT_EQ(reply.accept_status, AcceptStatus::kSuccess);
    Number number;
    ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(results_), &number));
    EXPECT_EQ(number.value, 42u);
  }
}

TEST_F(ControlCallTest, WhatCannotBeAnswered) {
  oncrpc::ReplyHeader reply = Ask({.program = 78, .version = 2}, Number());
  EXPECT_EQ(reply.accept_status, AcceptStatus::kProgramUnavailable);
  for (const uint32_t version : {1, 5}) {
    reply = Ask({.program = 77, .version = version}, Number());
    EXPECT_EQ(reply.accept_status, AcceptStatus::kProgramMismatch);
    EXPECT_EQ(reply.low, 2u);
    EXPECT_EQ(reply.high, 4u);
  }
  reply = Ask({.program = 77, .version = 2, .procedure = 1}, Number());
  EXPECT_EQ(reply.accept_status, AcceptStatus::kProcedureUnavailable);
  EXPECT_TRUE(results_.empty());
  EXPECT_EQ(Ask({.program = 77, .version = 2}, oncrpc::Void()).accept_status,
            AcceptStatus::kGarbageArguments);
  reply = Ask({.program = 77, .version = 2, .procedure = 3}, Number());
  EXPECT_TRUE(reply.denied);
  EXPECT_EQ(reply.auth_status, static_cast<uint32_t>(AuthStatus::kRejectedCred));
  reply = Ask({.rpc_version = 3, .program = 77, .version = 2}, oncrpc::Void());
  EXPECT_TRUE(reply.denied);
  EXPECT_EQ(reply.high, oncrpc::kRpcVersion);
}

TEST_F(ControlCallTest, WhatTheWayBackDoesNotCarryIsAnError) {
  for (const size_t room : {oncrpc::kReplyHeaderBytes + 8, oncrpc::kReplyHeaderBytes + 7}) {
    std::vector<uint8_t> record(100), answer;
    const oncrpc::CallHeader header{.program = 77, .version = 2};
    const size_t at = oncrpc::EmitCall(header, absl::MakeSpan(record));
    record.resize(at +
                  oncrpc::Encode(Number{21}, absl::MakeSpan(record).subspan(at)).stream.size());
    auto call = ControlCall::Take(
        kProgram, std::move(record), {.max_reply = room},
        RecordServer::Reply([&](std::vector<uint8_t> message) { answer = std::move(message); }));
    ASSERT_TRUE(call.has_value());
    Serve(*std::move(call));
    oncrpc::ReplyHeader reply;
    EXPECT_GT(oncrpc::ParseReply(answer, &reply), 0u);
    EXPECT_EQ(reply.accept_status, room == oncrpc::kReplyHeaderBytes + 8
                                       ? AcceptStatus::kSuccess
                                       : AcceptStatus::kSystemError);
  }
}

TEST_F(ControlCallTest, WhatIsNotAnsweredSaysSo) {
  EXPECT_TRUE(
      AskControl(kProgram, {.program = 77, .version = 2, .procedure = 2}, oncrpc::Void(), {}, Serve)
          .get()
          .empty());
  for (const std::vector<uint8_t>& record :
       {std::vector<uint8_t>(), std::vector<uint8_t>(40, 0xFF)}) {
    bool dropped = false;
    EXPECT_FALSE(ControlCall::Take(kProgram, record, {},
                                   RecordServer::Reply([&](std::vector<uint8_t> message) {
                                     dropped = message.empty();
                                   }))
                     .has_value());
    EXPECT_TRUE(dropped);
  }
}

}  // namespace
}  // namespace pollux::nfs
