#include "stack/engine/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_mempool.h>

#include <algorithm>
#include <string>
#include <variant>

#include "stack/engine/clock.h"
#include "stack/engine/eal.h"

namespace pollux::engine {
namespace {

using ::testing::HasSubstr;

class DeviceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitEal({.memory_mib = 256}).ok()); }
};

DeviceOptions At(uint32_t address) {
  DeviceOptions options;
  options.addresses = {net::InterfaceAddress::Ipv4(address)};
  return options;
}

ibv_ah_attr AttrTo(const Device& to, const Device& from) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = from.gid_index();
  const Gid gid = to.gid();
  std::copy(gid.raw.begin(), gid.raw.end(), attr.grh.dgid.raw);
  return attr;
}

// Two workers polled in turn resolve each other through their rings.
TEST_F(DeviceTest, PairResolvesEachOther) {
  auto pair = Device::OpenPair(At(0xC0000201), At(0xC0000202));
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device& a = *pair->first;
  Device& b = *pair->second;
  EXPECT_EQ(a.interface().active_mtu(), IBV_MTU_4096);
  memory::ProtectionDomain* pd = *a.worker().AllocPd();
  verbs::AddressHandle* ah = *a.worker().CreateAh(pd, AttrTo(b, a));
  const Clock clock;
  for (int turn = 0; turn < 1000 && !ah->link->Load().resolved; ++turn) {
    a.worker().Poll(clock.NowNs());
    b.worker().Poll(clock.NowNs());
  }
  EXPECT_TRUE(ah->link->Load().resolved);
  EXPECT_EQ(ah->link->Load().mac, b.interface().config().mac);
  EXPECT_TRUE(a.worker().DestroyAh(ah).ok());
  EXPECT_TRUE(a.worker().DeallocPd(pd).ok());
  a.Close();
  b.Close();
}

// A client of one worker, and a server of two: its port has one queue, so that all that arrives for
// the second, and all that it sends, passes through the first.
TEST_F(DeviceTest, WorkersShareAPort) {
  DeviceOptions two = At(0xC0000202);
  two.workers = 2;
  auto pair = Device::OpenPair(At(0xC0000201), two);
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device& client = *pair->first;
  Device& server = *pair->second;
  ASSERT_EQ(server.workers(), 2u);
  EXPECT_EQ(server.port().queues(), 1u);
  EXPECT_EQ(client.steering(), nullptr);
  EXPECT_EQ(server.interface(0).config().mac, server.interface(1).config().mac);
  const auto poll_all = [&, clock = Clock()] {
    client.worker().Poll(clock.NowNs());
    for (uint32_t i = 0; i < 2; ++i) server.worker(i).Poll(clock.NowNs());
  };
  // Each finds the client: the answers to the second are copied to it.
  for (uint32_t i = 0; i < 2; ++i) {
    memory::ProtectionDomain* pd = *server.worker(i).AllocPd();
    verbs::AddressHandle* ah = *server.worker(i).CreateAh(pd, AttrTo(client, server));
    for (int turn = 0; turn < 1000 && !ah->link->Load().resolved; ++turn) poll_all();
    EXPECT_TRUE(ah->link->Load().resolved) << i;
    EXPECT_EQ(ah->link->Load().mac, client.interface().config().mac) << i;
    EXPECT_TRUE(server.worker(i).DestroyAh(ah).ok());
    EXPECT_TRUE(server.worker(i).DeallocPd(pd).ok());
  }
  EXPECT_GT(server.steering(0)->counters().carried, 0u);
  EXPECT_GT(server.steering(1)->counters().by_ring, 0u);
  EXPECT_EQ(server.steering(1)->counters().received, 0u);
  EXPECT_EQ(server.interface(1).counters().arp_replies_sent, 0u) << "the first answers";
  Report report;
  ASSERT_TRUE(server.worker(1).Tell({.topic = "worker"}, &report));
  EXPECT_TRUE(std::ranges::any_of(report.fields(), [](const Report::Field& field) {
    return field.first == "steering/by_ring" && std::get<uint64_t>(field.second) > 0;
  }));
  client.Close();
  server.Close();
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rte_mempool_in_use_count(server.worker(i).packet_pool()), 0u);
  }
}

TEST_F(DeviceTest, AsManyQueuesAsBothSidesHaveWorkers) {
  DeviceOptions a = At(0xC0000201), b = At(0xC0000202);
  a.workers = 3;
  b.workers = 2;
  auto pair = Device::OpenPair(a, b);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->first->port().queues(), 2u);
  EXPECT_EQ(pair->second->port().queues(), 2u);
  pair->first->Close();
  pair->second->Close();
}

// As ibv_devinfo -v shows it: the link-local address first.
TEST_F(DeviceTest, GidTableAndGroups) {
  auto pair = Device::OpenPair(At(0xC0000201), At(0xC0000202));
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device& device = *pair->first;
  EXPECT_EQ(device.gid(), Gid::FromIpv4(0xC0000201));
  EXPECT_EQ(device.gid_index(), 1);
  EXPECT_EQ(device.QueryGidEx(0)->gid.raw[0], 0xFE);
  EXPECT_EQ(device.QueryGidEx(1)->gid.raw[15], 1);
  EXPECT_FALSE(device.QueryGidEx(2).ok());
  const Gid group = Gid::FromIpv4(0xE1010101);
  EXPECT_FALSE(device.LeaveMulticast(group).ok());
  EXPECT_TRUE(device.JoinMulticast(group).ok());
  EXPECT_TRUE(device.LeaveMulticast(group).ok());
  pair->first->Close();
  pair->second->Close();
}

TEST_F(DeviceTest, BadOptionsAreNamed) {
  DeviceOptions options = At(0xC0000201);
  options.addresses[0].prefix_length = 33;
  EXPECT_THAT(std::string(Device::OpenPair(options, At(1)).status().message()),
              HasSubstr("192.0.2.1/33"));
  options = At(0xC0000201);
  for (const uint32_t workers : {0u, 17u}) {
    options.workers = workers;
    EXPECT_THAT(std::string(Device::OpenPair(options, At(1)).status().message()),
                HasSubstr("1 to 16"));
  }
  options = At(0xC0000201);
  options.port = "net_nothing0";
  EXPECT_FALSE(Device::Open(options).ok());
}

}  // namespace
}  // namespace pollux::engine
