#include "nfs/server/lock_clients.h"

#include <gtest/gtest.h>

#include <string>

namespace pollux::nfs {
namespace {

bool HasRestarted(LockClients& clients, const LockClient& client, uint32_t state) {
  return clients.HeardOf(client, state).restarted;
}

TEST(LockClientsTest, AnotherStateIsAnotherStart) {
  LockClients clients;
  const LockClient one{.address = Gid::FromIpv4(1), .name = "one"};
  const LockClient two{.address = Gid::FromIpv4(1), .name = "two"};
  EXPECT_FALSE(HasRestarted(clients, one, 3));
  EXPECT_FALSE(HasRestarted(clients, two, 5));
  EXPECT_FALSE(HasRestarted(clients, one, 3));
  EXPECT_EQ(clients.IncarnationOf(one), 0u);
  EXPECT_TRUE(HasRestarted(clients, one, 5));
  const uint64_t second = clients.IncarnationOf(one);
  EXPECT_GT(second, 0u);
  EXPECT_EQ(clients.HeardOf(one, 5).incarnation, second);
  EXPECT_EQ(clients.IncarnationOf(two), 0u);
}

TEST(LockClientsTest, WhoHasNoStateYetHasNotRestarted) {
  LockClients clients;
  const LockClient one{.address = Gid::FromIpv4(1), .name = "one"};
  const uint64_t renewed = clients.Renew(one);
  EXPECT_GT(renewed, 0u);
  EXPECT_EQ(clients.HeardOf(one, 3).incarnation, renewed);
  EXPECT_GT(clients.Renew(one), renewed);
  EXPECT_FALSE(HasRestarted(clients, one, 3));
}

TEST(LockClientsTest, AllOfAnAddressThatWereInAnotherState) {
  LockClients clients;
  const Gid address = Gid::FromIpv4(1);
  const LockClient one{.address = address, .name = "one"}, two{.address = address, .name = "two"};
  clients.HeardOf(one, 3);
  clients.HeardOf(two, 5);
  clients.HeardOf({.address = Gid::FromIpv4(2), .name = "one"}, 3);
  for (int again = 0; again < 2; ++again) {
    const auto restarted = clients.Restarted(address, 5);
    ASSERT_EQ(restarted.size(), 1u);
    EXPECT_EQ(restarted[0].client, one);
    EXPECT_GT(restarted[0].number, clients.IncarnationOf(one));
  }
  clients.HeardOf(one, 5);
  EXPECT_TRUE(clients.Restarted(address, 5).empty());
}

TEST(LockClientsTest, TheOneLongestUnheardOfIsForgotten) {
  LockClients clients;
  const LockClient kept{.address = {}, .name = "kept"};
  const auto numbered = [](size_t number) {
    return LockClient{.address = {}, .name = std::to_string(number)};
  };
  EXPECT_FALSE(HasRestarted(clients, {.address = {}, .name = "lost"}, 1));
  EXPECT_FALSE(HasRestarted(clients, kept, 1));
  for (size_t i = 0; i < LockClients::kMaxClients; ++i) {
    EXPECT_FALSE(HasRestarted(clients, numbered(i), 1));
    EXPECT_FALSE(HasRestarted(clients, kept, 1));
  }
  EXPECT_FALSE(HasRestarted(clients, {.address = {}, .name = "lost"}, 2));
  EXPECT_TRUE(HasRestarted(clients, kept, 2));
}

}  // namespace
}  // namespace pollux::nfs
