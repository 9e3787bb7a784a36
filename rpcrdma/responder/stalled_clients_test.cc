#include "rpcrdma/responder/stalled_clients.h"

#include <gtest/gtest.h>

namespace pollux::rpcrdma {
namespace {

Gid At(uint32_t host) { return Gid::FromIpv4(0xC0000200 + host); }

TEST(StalledClientsTest, RemembersAClientForALimitedTime) {
  StalledClients stalled;
  EXPECT_EQ(stalled.Until(At(1)), 0u);
  EXPECT_EQ(stalled.Add(At(1), 5), 5 + StalledClients::kKeptNs);
  EXPECT_EQ(stalled.Until(At(1)), 5 + StalledClients::kKeptNs);
  EXPECT_EQ(stalled.Until(At(2)), 0u);
  stalled.Add(At(1), 7);
  EXPECT_EQ(stalled.Until(At(1)), 7 + StalledClients::kKeptNs);
}

TEST(StalledClientsTest, AboveTheLimitTheOldestIsRemoved) {
  StalledClients stalled;
  for (uint32_t i = 0; i < StalledClients::kMax; ++i) stalled.Add(At(i), i);
  EXPECT_NE(stalled.Until(At(0)), 0u);
  stalled.Add(At(1000), 1000);
  EXPECT_EQ(stalled.Until(At(0)), 0u);
  EXPECT_NE(stalled.Until(At(1)), 0u);
  EXPECT_NE(stalled.Until(At(1000)), 0u);
}

}  // namespace
}  // namespace pollux::rpcrdma
