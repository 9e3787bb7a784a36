// What an rpcbind that is none makes of a look-up; tests/command/rpcbind_test.py has a real one.
#include "oncrpc/rpcbind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oncrpc/stream_peer_for_test.h"
#include "oncrpc/tcp_server_for_test.h"
#include "oncrpc/xdr.h"

namespace pollux::oncrpc {
namespace {

using ::testing::HasSubstr;

absl::Status Find(StreamPeer::Next next) {
  const StreamPeer peer(std::move(next));
  auto rpcbind = RpcBind::At(peer.endpoint().address, peer.endpoint().port);
  if (!rpcbind.ok()) return rpcbind.status();
  return rpcbind->Find(100021, 4, peer.endpoint().address, RpcBind::Transport::kTcp).status();
}

TEST(RpcBindTest, AnEndlessReplyIsUnavailable) {
  // Fragments of nothing; small ones; one as large as there can be.
  for (const std::vector<uint8_t>& bytes :
       {std::vector<uint8_t>(4096), {0, 0, 0, 1, 7}, std::vector<uint8_t>(4096, 0x7F)}) {
    const absl::Status status = Find([bytes] { return bytes; });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the rpcbind of 127.0.0.1"));
  }
}

TEST(RpcBindTest, AMalformedReplyIsUnavailable) {
  const absl::Status status = Find([] { return std::vector<uint8_t>{0x80, 0, 0, 4, 1, 2, 3, 4}; });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(Find([] { return std::vector<uint8_t>(); }).code(), absl::StatusCode::kUnavailable);
}

TEST(RpcBindTest, AnInvalidAddressOfARegistrationIsUnavailable) {
  const TcpServer peer([](const CallHeader& call, absl::Span<const uint8_t>) {
    std::vector<uint8_t> results(64);
    XdrWriter list(absl::MakeSpan(results));
    list.Bool(true);
    list.Uint32(100021);
    list.Uint32(4);
    list.String("tcp");
    list.String("127.0.0.1");
    list.String("root");
    list.Bool(false);
    results.resize(list.bytes().size());
    return Record({.xid = call.xid}, results);
  });
  auto rpcbind = RpcBind::At(peer.endpoint().address, peer.endpoint().port);
  ASSERT_TRUE(rpcbind.ok()) << rpcbind.status();
  const absl::Status status =
      rpcbind->Find(100021, 4, peer.endpoint().address, RpcBind::Transport::kTcp).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the rpcbind of 127.0.0.1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a universal address"));
}

TEST(RpcBindTest, AnAddressIsServedWhileAServiceListensThere) {
  SocketAddress at;
  {
    const StreamPeer peer([] { return std::vector<uint8_t>(); });
    at = peer.endpoint();
    EXPECT_TRUE(RpcBind::IsServedByTcp(at));
    EXPECT_TRUE(RpcBind::IsServedByTcp({.address = Gid::FromIpv4(0), .port = at.port}));
  }
  EXPECT_FALSE(RpcBind::IsServedByTcp(at));
}

}  // namespace
}  // namespace pollux::oncrpc
