#include "rpcrdma/wire/negotiated.h"

#include <gtest/gtest.h>

#include <array>

namespace pollux::rpcrdma {
namespace {

constexpr PrivateData kClient{
    .remote_invalidation = true, .send_bytes = 8192, .receive_bytes = 2048};
constexpr PrivateData kServer{
    .remote_invalidation = true, .send_bytes = 4096, .receive_bytes = 4096};

TEST(Negotiate, BothSidesAgree) {
  const Negotiated client =
      Negotiate(kClient, /*local_is_client=*/true, EncodePrivateData(kServer));
  const Negotiated server =
      Negotiate(kServer, /*local_is_client=*/false, EncodePrivateData(kClient));
  for (const Negotiated& one : {client, server}) {
    EXPECT_TRUE(one.peer_sent);
    EXPECT_EQ(one.thresholds.client_to_server, 4096u);
    EXPECT_EQ(one.thresholds.server_to_client, 2048u);
    EXPECT_TRUE(one.remote_invalidation());
  }
  EXPECT_EQ(client.peer, kServer);
  EXPECT_EQ(server.peer, kClient);
  const DirectionTerms reverse = ReverseTerms(server);
  EXPECT_EQ(reverse.call_threshold, 2048u);
  EXPECT_EQ(reverse.reply_threshold, 4096u);
  EXPECT_FALSE(reverse.chunks);
}

TEST(Negotiate, TheDefaultsHoldForAPeerThatSendsNone) {
  constexpr std::array<uint8_t, 56> kZeros{};  // as CM pads
  const Negotiated negotiated = Negotiate(kClient, /*local_is_client=*/true, kZeros);
  EXPECT_FALSE(negotiated.peer_sent);
  EXPECT_EQ(negotiated.peer, PrivateData{});
  EXPECT_EQ(negotiated.peer_private_data.size(), kZeros.size());
  EXPECT_EQ(negotiated.thresholds.client_to_server, 1024u);
  EXPECT_EQ(negotiated.thresholds.server_to_client, 1024u);
  EXPECT_FALSE(negotiated.remote_invalidation());
}

}  // namespace
}  // namespace pollux::rpcrdma
