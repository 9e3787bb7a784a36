#include "nfs/lock/lock_clients.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

namespace pollux::nfs {
namespace {

const LockClient kClientOne{.address = Gid::FromIpv4(1), .name = "one"};
const LockClient kClientTwo{.address = Gid::FromIpv4(1), .name = "two"};

class LockClientsTest : public testing::Test {
 protected:
  // Whether it is another incarnation by that, of which nothing is freed yet.
  bool HasRestarted(const LockClient& client, uint32_t state) {
    const auto heard = clients_.HeardOf(client, state);
    EXPECT_TRUE(heard.has_value());
    return heard.has_value() && !heard->freed;
  }
  uint64_t IncarnationOf(const LockClient& client) {
    return clients_.HeardOf(client, std::nullopt)->incarnation;
  }

  std::set<LockClient> holders_;
  LockClients clients_{[this](const LockClient& client) { return holders_.contains(client); }};
};

TEST_F(LockClientsTest, ANewStateIsARestart) {
  EXPECT_FALSE(HasRestarted(kClientOne, 3));
  EXPECT_FALSE(HasRestarted(kClientTwo, 5));
  EXPECT_FALSE(HasRestarted(kClientOne, 3));
  EXPECT_EQ(IncarnationOf(kClientOne), 0u);
  EXPECT_TRUE(HasRestarted(kClientOne, 5));
  const uint64_t second = IncarnationOf(kClientOne);
  EXPECT_GT(second, 0u);
  EXPECT_EQ(clients_.HeardOf(kClientOne, 5)->incarnation, second);
  EXPECT_EQ(IncarnationOf(kClientTwo), 0u);
}

TEST_F(LockClientsTest, ARequestWithAnEarlierStateIsStale) {
  clients_.HeardOf(kClientOne, 5);
  EXPECT_TRUE(HasRestarted(kClientOne, 7));
  const uint64_t number = IncarnationOf(kClientOne);
  for (const uint32_t earlier : {5u, 3u, 5u}) {
    EXPECT_TRUE(clients_.HeardOf(kClientOne, earlier)->stale);
  }
  const auto current = clients_.HeardOf(kClientOne, 7);
  EXPECT_FALSE(current->stale);
  EXPECT_EQ(current->incarnation, number);
  // States wrap.
  clients_.HeardOf(kClientTwo, UINT32_MAX);
  EXPECT_TRUE(HasRestarted(kClientTwo, 1));
  EXPECT_TRUE(clients_.HeardOf(kClientTwo, UINT32_MAX)->stale);
}

// A host that was installed anew, which does not notify those that it does not know.
TEST_F(LockClientsTest, AnEarlierStateThatPersistsIsARestart) {
  constexpr auto kReset = LockClients::kResetAfter;
  constexpr auto kTick = std::chrono::nanoseconds(1);
  const auto start = std::chrono::steady_clock::now();
  clients_.HeardOf(kClientOne, 9, start);
  EXPECT_TRUE(clients_.HeardOf(kClientOne, 3, start)->stale);
  // It sends the known state, so the other one was of a delayed request.
  EXPECT_FALSE(clients_.HeardOf(kClientOne, 9, start + kTick)->stale);
  EXPECT_TRUE(clients_.HeardOf(kClientOne, 3, start + kReset)->stale);
  EXPECT_TRUE(clients_.HeardOf(kClientOne, 3, start + 2 * kReset - kTick)->stale);
  const auto heard = clients_.HeardOf(kClientOne, 3, start + 2 * kReset);
  EXPECT_FALSE(heard->stale);
  EXPECT_FALSE(heard->freed);
  EXPECT_GT(heard->incarnation, 0u);
}

TEST_F(LockClientsTest, ANotificationSetsAnyState) {
  clients_.HeardOf(kClientOne, 9);
  const auto restarted = clients_.Restarted(kClientOne.address, 1);
  ASSERT_EQ(restarted.size(), 1u);
  clients_.Freed(restarted[0], 1);
  const auto heard = clients_.HeardOf(kClientOne, 1);
  EXPECT_FALSE(heard->stale);
  EXPECT_EQ(heard->incarnation, restarted[0].number);
}

TEST_F(LockClientsTest, ARestartIsPendingUntilItsLocksAreFreed) {
  clients_.HeardOf(kClientOne, 3);
  EXPECT_TRUE(HasRestarted(kClientOne, 5));
  EXPECT_TRUE(HasRestarted(kClientOne, 5));
  const uint64_t number = IncarnationOf(kClientOne);
  const auto left = clients_.Restarted(kClientOne.address, 5);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].number, number);
  // What was freed for an incarnation before says nothing of this one.
  clients_.Freed({.client = kClientOne, .number = number - 1}, 3);
  EXPECT_TRUE(HasRestarted(kClientOne, 5));
  clients_.Freed({.client = kClientOne, .number = number}, 5);
  EXPECT_FALSE(HasRestarted(kClientOne, 5));
  EXPECT_EQ(IncarnationOf(kClientOne), number);
  EXPECT_TRUE(clients_.Restarted(kClientOne.address, 5).empty());
}

TEST_F(LockClientsTest, RenewStartsANewIncarnation) {
  EXPECT_FALSE(clients_.Renew(kClientOne).has_value());
  clients_.HeardOf(kClientOne, std::nullopt);
  const uint64_t renewed = *clients_.Renew(kClientOne);
  EXPECT_GT(renewed, 0u);
  EXPECT_EQ(clients_.HeardOf(kClientOne, 3)->incarnation, renewed);
  EXPECT_GT(*clients_.Renew(kClientOne), renewed);
  clients_.Freed({.client = kClientOne, .number = IncarnationOf(kClientOne)}, std::nullopt);
  EXPECT_FALSE(HasRestarted(kClientOne, 3));
}

TEST_F(LockClientsTest, RestartedListsClientsOfTheAddressInAnEarlierState) {
  clients_.HeardOf(kClientOne, 3);
  clients_.HeardOf(kClientTwo, 5);
  clients_.HeardOf({.address = Gid::FromIpv4(2), .name = "one"}, 3);
  for (int again = 0; again < 2; ++again) {
    const auto restarted = clients_.Restarted(kClientOne.address, 5);
    ASSERT_EQ(restarted.size(), 1u);
    EXPECT_EQ(restarted[0].client, kClientOne);
    EXPECT_GT(restarted[0].number, IncarnationOf(kClientOne));
    if (again == 1) clients_.Freed(restarted[0], 5);
  }
  EXPECT_TRUE(clients_.Restarted(kClientOne.address, 5).empty());
  EXPECT_FALSE(HasRestarted(kClientOne, 5));
}

TEST_F(LockClientsTest, RestartedMatchesHostAndDomainNames) {
  const Gid address = kClientOne.address;
  for (const char* name : {"guest", "guest.lan", "guest.other", "guestbook", ""}) {
    clients_.HeardOf({.address = address, .name = name}, 3);
  }
  const auto names = [&](std::string_view name) {
    std::string all;
    for (const auto& one : clients_.Restarted(address, 5, name)) all += one.client.name + ";";
    return all;
  };
  EXPECT_EQ(names("guest"), "guest;guest.lan;guest.other;");
  EXPECT_EQ(names("guest.lan"), "guest;guest.lan;");
  EXPECT_EQ(names("guest.l"), "guest;");
  EXPECT_EQ(names("gues"), "");
  EXPECT_EQ(names(""), ";");
  EXPECT_EQ(clients_.Restarted(address, 5).size(), 5u);
}

LockClient Numbered(size_t number, uint32_t address) {
  return {.address = Gid::FromIpv4(address), .name = std::to_string(number)};
}

TEST_F(LockClientsTest, AboveTheAddressLimitAClientWithoutLocksIsRemoved) {
  EXPECT_FALSE(HasRestarted(kClientOne, 1));
  EXPECT_FALSE(HasRestarted(kClientTwo, 1));
  const LockClient neighbour = Numbered(0, 2);
  EXPECT_FALSE(HasRestarted(neighbour, 1));
  holders_ = {kClientTwo};
  for (size_t i = 0; i < LockClients::kMaxClientsOfAddress; ++i) {
    EXPECT_FALSE(HasRestarted(Numbered(i, 1), 1));
  }
  EXPECT_FALSE(HasRestarted(kClientOne, 2));
  EXPECT_TRUE(HasRestarted(kClientTwo, 2));
  EXPECT_TRUE(HasRestarted(neighbour, 2));
}

TEST_F(LockClientsTest, ClientsWithLocksAreNotRemoved) {
  const auto client = [](size_t number) {
    return Numbered(number, static_cast<uint32_t>(number / LockClients::kMaxClientsOfAddress));
  };
  for (size_t i = 0; i < LockClients::kMaxClients; ++i) {
    EXPECT_FALSE(HasRestarted(client(i), 1));
    holders_.insert(client(i));
  }
  const LockClient other = client(LockClients::kMaxClients);
  EXPECT_FALSE(clients_.HeardOf(other, 1).has_value());
  holders_.erase(client(7));
  EXPECT_FALSE(HasRestarted(other, 1));
  holders_.insert(other);
  EXPECT_FALSE(clients_.HeardOf(client(7), 2).has_value());
  EXPECT_TRUE(HasRestarted(client(0), 2));
}

}  // namespace
}  // namespace pollux::nfs
