#include "oncrpc/service_call.h"

#include <gtest/gtest.h>

#include "oncrpc/service_call_for_test.h"

namespace pollux::oncrpc {
namespace {

constexpr ServiceProgram kProgram = {.program = 77, .low = 2, .high = 4};

struct Number {
  uint64_t value = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.value);
  }
};

// Twice the argument; procedure 1 is none, of procedure 2 nothing comes, 3 is for others, 4
// may return a long list.
void Serve(ServiceCall call) {
  Number number;
  if (call.procedure() == 1) return call.Fail(AcceptStatus::kProcedureUnavailable);
  if (call.procedure() == 2) return;
  if (call.procedure() == 3) return call.Deny(AuthStatus::kRejectedCred);
  if (!call.Read(&number)) return call.Fail(AcceptStatus::kGarbageArguments);
  const bool may_be_long = call.procedure() == 4;
  call.Reply(Number{number.value * 2}, may_be_long ? ServiceCall::kMaxListBytes : sizeof(number));
}

class ServiceCallTest : public testing::Test {
 protected:
  template <class Args>
  ReplyHeader Ask(const CallHeader& header, const Args& args) {
    message_ = AskService(kProgram, header, args, {}, Serve).get();
    ReplyHeader reply;
    const size_t begin = ParseReply(message_, &reply);
    EXPECT_GT(begin, 0u);
    EXPECT_EQ(reply.xid, header.xid);
    results_ = absl::MakeConstSpan(message_).subspan(begin);
    return reply;
  }
  std::vector<uint8_t> message_;
  absl::Span<const uint8_t> results_;
};

TEST_F(ServiceCallTest, AnswersInEachOfItsVersions) {
  for (uint32_t version = 2; version <= 4; ++version) {
    const auto reply = Ask({.xid = version, .program = 77, .version = version}, Number{21});
    EXPECT_EQ(reply.accept_status, AcceptStatus::kSuccess);
    Number number;
    ASSERT_TRUE(Decode(XdrReader(results_), &number));
    EXPECT_EQ(number.value, 42u);
  }
}

TEST_F(ServiceCallTest, InvalidCallsGetTheMatchingError) {
  ReplyHeader reply = Ask({.program = 78, .version = 2}, Number());
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
  EXPECT_EQ(Ask({.program = 77, .version = 2}, Void()).accept_status,
            AcceptStatus::kGarbageArguments);
  reply = Ask({.program = 77, .version = 2, .procedure = 3}, Number());
  EXPECT_TRUE(reply.denied);
  EXPECT_EQ(reply.auth_status, static_cast<uint32_t>(AuthStatus::kRejectedCred));
  reply = Ask({.rpc_version = 3, .program = 77, .version = 2}, Void());
  EXPECT_TRUE(reply.denied);
  EXPECT_EQ(reply.high, kRpcVersion);
}

TEST_F(ServiceCallTest, AResultAboveTheReplyLimitIsASystemError) {
  for (const size_t room : {kReplyHeaderBytes + 8, kReplyHeaderBytes + 7}) {
    std::vector<uint8_t> record(100), answer;
    const CallHeader header{.program = 77, .version = 2};
    const size_t at = EmitCall(header, absl::MakeSpan(record));
    record.resize(at + Encode(Number{21}, absl::MakeSpan(record).subspan(at)).stream.size());
    auto call = ServiceCall::Take(
        kProgram, std::move(record), {.max_reply = room},
        ReplySender([&](std::vector<uint8_t> message) { answer = std::move(message); }));
    ASSERT_TRUE(call.has_value());
    Serve(*std::move(call));
    ReplyHeader reply;
    EXPECT_GT(ParseReply(answer, &reply), 0u);
    EXPECT_EQ(reply.accept_status,
              room == kReplyHeaderBytes + 8 ? AcceptStatus::kSuccess : AcceptStatus::kSystemError);
  }
}

// Thousands of replies may wait to be sent.
TEST_F(ServiceCallTest, AReplyHoldsNoMoreMemoryThanItsSize) {
  for (const uint32_t procedure : {0, 1, 4}) {
    Ask({.program = 77, .version = 2, .procedure = procedure}, Number{21});
    EXPECT_EQ(message_.capacity(), message_.size()) << procedure;
  }
}

TEST_F(ServiceCallTest, UnansweredAndMalformedCallsGetAnEmptyMessage) {
  EXPECT_TRUE(AskService(kProgram, {.program = 77, .version = 2, .procedure = 2}, Void(), {}, Serve)
                  .get()
                  .empty());
  for (const std::vector<uint8_t>& record :
       {std::vector<uint8_t>(), std::vector<uint8_t>(40, 0xFF)}) {
    bool dropped = false;
    EXPECT_FALSE(ServiceCall::Take(
                     kProgram, record, {},
                     ReplySender([&](std::vector<uint8_t> message) { dropped = message.empty(); }))
                     .has_value());
    EXPECT_TRUE(dropped);
  }
}

}  // namespace
}  // namespace pollux::oncrpc
