#include "oncrpc/stream_client.h"

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oncrpc/tcp_server_for_test.h"
#include "stack/base/byte_order.h"

namespace pollux::oncrpc {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

const AuthSys& Me() {
  static const AuthSys me{.machinename = {"here"}, .uid = 1000, .gid = 100, .gids = {{5, 6}}};
  return me;
}

absl::StatusOr<StreamClient> To(const TcpServer& server, const AuthSys& credential = Me()) {
  return StreamClient::Connect(server.endpoint(), 7, 3, credential, "the service");
}

// Adds one to the word that it is given.
Bytes Increment(const CallHeader& call, absl::Span<const uint8_t> arguments) {
  Bytes results(4);
  StoreBe32(results.data(), LoadBe32(arguments.data()) + 1);
  return Record({.xid = call.xid}, results);
}

struct Word {
  uint32_t value = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.value);
  }
};

struct Text {
  BoundedString<8192> text;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.text);
  }
};

TEST(StreamClientTest, SuccessiveCallsUseOneConnection) {
  std::atomic<uint32_t> uid = 0, gids = 0;
  const TcpServer server([&](const CallHeader& call, absl::Span<const uint8_t> arguments) {
    AuthSys credential;
    EXPECT_EQ(call.credential.flavor, AuthFlavor::kSys);
    EXPECT_TRUE(Decode(XdrReader(call.credential.body), &credential));
    uid = credential.uid;
    gids = static_cast<uint32_t>(credential.gids.items.size());
    EXPECT_EQ(call.program, 7u);
    EXPECT_EQ(call.version, 3u);
    EXPECT_EQ(call.procedure, 9u);
    return Increment(call, arguments);
  });
  auto rpc = To(server);
  ASSERT_TRUE(rpc.ok()) << rpc.status();
  for (uint32_t i = 0; i < 3; ++i) {
    Word result;
    ASSERT_TRUE(rpc->Call(9, Word{i}, &result).ok());
    EXPECT_EQ(result.value, i + 1);
  }
  EXPECT_EQ(uid, 1000u);
  EXPECT_EQ(gids, 2u);
}

TEST(StreamClientTest, TakesAReplyInFragments) {
  const TcpServer server([](const CallHeader& call, absl::Span<const uint8_t> arguments) {
    const Bytes whole = Increment(call, arguments);
    Bytes pieces = {0, 0, 0, 8, 0, 0, 0, 0, 0x80, 0, 0, static_cast<uint8_t>(whole.size() - 12)};
    pieces.insert(pieces.begin() + 4, whole.begin() + 4, whole.begin() + 12);
    pieces.erase(pieces.begin() + 12, pieces.begin() + 16);
    pieces.insert(pieces.end(), whole.begin() + 12, whole.end());
    return pieces;
  });
  auto rpc = To(server);
  Word result;
  const absl::Status status = rpc->Call(0, Word{41}, &result);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(result.value, 42u);
}

TEST(StreamClientTest, ErrorsOfTheRpcLayerNameTheService) {
  const TcpServer server([](const CallHeader& call, absl::Span<const uint8_t>) {
    return Record({.xid = call.xid, .accept_status = AcceptStatus::kProcedureUnavailable}, {});
  });
  auto rpc = To(server);
  Word result;
  const absl::Status status = rpc->Call(0, Word(), &result);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the service: the server has no procedure"));
}

TEST(StreamClientTest, InvalidRepliesAreDataLoss) {
  const auto answer = [](auto make) {
    const TcpServer server(
        [make](const CallHeader& call, absl::Span<const uint8_t>) { return make(call.xid); });
    auto rpc = To(server);
    Word result;
    return rpc->Call(0, Word(), &result).code();
  };
  const auto garbage = absl::StatusCode::kDataLoss;
  // Of another call, with results that are short or too many, with no header, larger than it may
  // be.
  EXPECT_EQ(answer([](uint32_t xid) { return Record({.xid = xid + 1}, Bytes(4)); }), garbage);
  EXPECT_EQ(answer([](uint32_t xid) { return Record({.xid = xid}, {}); }), garbage);
  EXPECT_EQ(answer([](uint32_t xid) { return Record({.xid = xid}, Bytes(8)); }), garbage);
  EXPECT_EQ(answer([](uint32_t) { return Bytes{0x80, 0, 0, 4, 1, 2, 3, 4}; }), garbage);
  EXPECT_EQ(answer([](uint32_t) { return Bytes{0xFF, 0xFF, 0xFF, 0xFF}; }), garbage);
  // For ever more fragments of nothing.
  EXPECT_EQ(answer([](uint32_t) { return Bytes(4 * 2000); }), garbage);
  // None at all.
  EXPECT_EQ(answer([](uint32_t) { return Bytes(); }), absl::StatusCode::kUnavailable);
}

TEST(StreamClientTest, ConnectionAndEncodingErrorsAreReturned) {
  SocketAddress nobody;
  {
    const TcpServer server(Increment);
    nobody = server.endpoint();
    AuthSys credential = Me();
    credential.gids.items.assign(kMaxAuthSysGids + 1, 1);
    EXPECT_EQ(To(server, credential).status().code(), absl::StatusCode::kInvalidArgument);

    auto rpc = To(server);
    Void nothing;
    const std::string text(5000, '/');
    EXPECT_EQ(rpc->Call(1, Text{{text}}, &nothing).code(), absl::StatusCode::kInvalidArgument);
  }
  const auto refused = StreamClient::Connect(nobody, 7, 3, Me(), "the service");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("the service: Connection refused"));
}

}  // namespace
}  // namespace pollux::oncrpc
