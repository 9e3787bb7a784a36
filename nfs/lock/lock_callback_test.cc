#include "nfs/lock/lock_callback.h"

#include <gtest/gtest.h>

#include "nfs/lock/nlm.h"
#include "oncrpc/tcp_server_for_test.h"

namespace pollux::nfs {
namespace {

const LockRequest kRequest = {
    .file = "handle",
    .owner = {.client = {.address = Gid::FromIpv4(0x7F000001), .name = "guest"},
              .svid = 7,
              .oh = "process"},
    .range = {.begin = 10, .last = 19},
    .exclusive = true};

// What the lock manager of a client is asked, and whether it wants the lock.
struct Manager {
  bool Answer(Nlm4Stats stat) {
    oncrpc::TcpServer server([&](const oncrpc::CallHeader& call,
                                 absl::Span<const uint8_t> arguments) {
      EXPECT_EQ(call.program, kNlmProgram);
      EXPECT_EQ(call.version, kNlmV4);
      EXPECT_EQ(call.procedure, static_cast<uint32_t>(NlmProcedure::kGranted));
      Nlm4Testargs args;
      EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(arguments), &args));
      EXPECT_EQ(args.alock.fh.text, "handle");
      EXPECT_EQ(args.alock.oh.text, "process");
      EXPECT_EQ(args.alock.svid, 7u);
      EXPECT_EQ(args.alock.l_offset, 10u);
      EXPECT_EQ(args.alock.l_len, 10u);
      EXPECT_TRUE(args.exclusive);
      if (stat == Nlm4Stats::kFailed) return std::vector<uint8_t>();
      std::vector<uint8_t> results(64);
      results.resize(oncrpc::Encode(Nlm4Res{.stat = stat}, absl::MakeSpan(results)).stream.size());
      return oncrpc::Record({.xid = call.xid}, results);
    });
    return TellGrantedAt(server.endpoint(), kRequest);
  }
};

TEST(LockCallbackTest, TheReplyDecidesWhetherTheGrantIsTaken) {
  EXPECT_TRUE(Manager().Answer(Nlm4Stats::kGranted));
  EXPECT_FALSE(Manager().Answer(Nlm4Stats::kDenied));
}

TEST(LockCallbackTest, WithoutAReplyTheGrantMayBeTaken) {
  EXPECT_TRUE(Manager().Answer(Nlm4Stats::kFailed));
}

// A Linux client compares it with the address of its server.
TEST(LockCallbackTest, TheGrantComesFromTheAddressThatWasAsked) {
  oncrpc::TcpServer server([](const oncrpc::CallHeader& call, absl::Span<const uint8_t>) {
    std::vector<uint8_t> results(64);
    results.resize(oncrpc::Encode(Nlm4Res{}, absl::MakeSpan(results)).stream.size());
    return oncrpc::Record({.xid = call.xid}, results);
  });
  LockRequest request = kRequest;
  request.server = Gid::FromIpv4(0x7F000002);
  EXPECT_TRUE(TellGrantedAt(server.endpoint(), request));
  EXPECT_EQ(server.client(), request.server);
  // This host does not have the address any more.
  request.server = Gid::FromIpv4(0xC0000201);
  EXPECT_TRUE(TellGrantedAt(server.endpoint(), request));
  EXPECT_EQ(server.client(), Gid::FromIpv4(0x7F000001));
}

TEST(LockCallbackTest, AnUnreachableClientDoesNotGetTheGrant) {
  // Nobody listens on this host's port 1.
  EXPECT_FALSE(TellGrantedAt({.address = Gid::FromIpv4(0x7F000001), .port = 1}, kRequest));
}

TEST(LockCallbackTest, ResultsOfMsgCallsAreSentToTheClient) {
  int calls = 0;
  {
    oncrpc::TcpServer server(
        [&](const oncrpc::CallHeader& call, absl::Span<const uint8_t> arguments) {
          EXPECT_EQ(call.program, kNlmProgram);
          EXPECT_EQ(call.procedure, static_cast<uint32_t>(NlmProcedure::kLockRes));
          Nlm4Res result;
          EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(arguments), &result));
          EXPECT_EQ(result.cookie.text, "cookie");
          EXPECT_EQ(result.stat, Nlm4Stats::kDenied);
          ++calls;
          return oncrpc::Record({.xid = call.xid}, {});
        });
    std::vector<uint8_t> space(64);
    const oncrpc::Encoded encoded = oncrpc::Encode(
        Nlm4Res{.cookie = {"cookie"}, .stat = Nlm4Stats::kDenied}, absl::MakeSpan(space));
    EXPECT_TRUE(TellResultAt(server.endpoint(), NlmProcedure::kLockRes, encoded.stream));
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace pollux::nfs
