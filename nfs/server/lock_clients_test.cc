#include "nfs/server/lock_clients.h"

#include <gtest/gtest.h>

#include <string>

namespace pollux::nfs {
namespace {

TEST(LockClientsTest, AnotherStateIsAnotherStart) {
  LockClients clients;
  const LockClient one{.address = Gid::FromIpv4(1), .name = "one"};
  const LockClient two{.address = Gid::FromIpv4(1), .name = "two"};
  EXPECT_FALSE(clients.HasRestarted(one, 3));
  EXPECT_FALSE(clients.HasRestarted(two, 5));
  EXPECT_FALSE(clients.HasRestarted(one, 3));
  EXPECT_TRUE(clients.HasRestarted(one, 5));
  EXPECT_FALSE(clients.HasRestarted(one, 5));
}

TEST(LockClientsTest, TheOneLongestUnheardOfIsForgotten) {
  LockClients clients;
  const LockClient kept{.address = {}, .name = "kept"};
  EXPECT_FALSE(clients.HasRestarted({.address = {}, .name = "lost"}, 1));
  EXPECT_FALSE(clients.HasRestarted(kept, 1));
  for (size_t i = 0; i < LockClients::kMaxClients; ++i) {
    EXPECT_FALSE(clients.HasRestarted({.address = {}, .name = std::to_string(i)}, 1));
    EXPECT_FALSE(clients.HasRestarted(kept, 1));
  }
  EXPECT_FALSE(clients.HasRestarted({.address = {}, .name = "lost"}, 2));
  EXPECT_TRUE(clients.HasRestarted(kept, 2));
}

}  // namespace
}  // namespace pollux::nfs
