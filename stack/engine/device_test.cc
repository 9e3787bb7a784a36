#include "stack/engine/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// Two workers polled in turn resolve each other through their rings.
TEST_F(DeviceTest, PairResolvesEachOther) {
  auto pair = Device::OpenPair(At(0xC0000201), At(0xC0000202));
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device& a = *pair->first;
  Device& b = *pair->second;
  EXPECT_EQ(a.interface().active_mtu(), IBV_MTU_4096);
  memory::ProtectionDomain* pd = *a.worker().AllocPd();
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = a.gid_index();
  const Gid gid = b.gid();
  std::copy(gid.raw.begin(), gid.raw.end(), attr.grh.dgid.raw);
  verbs::AddressHandle* ah = *a.worker().CreateAh(pd, attr);
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
  options.port = "net_nothing0";
  EXPECT_FALSE(Device::Open(options).ok());
}

}  // namespace
}  // namespace pollux::engine
