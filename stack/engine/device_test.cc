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
  options.address = address;
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

TEST_F(DeviceTest, BadOptionsAreNamed) {
  DeviceOptions options = At(0xC0000201);
  options.prefix_length = 33;
  EXPECT_THAT(std::string(Device::OpenPair(options, At(1)).status().message()),
              HasSubstr("prefix length 33"));
  options = At(0xC0000201);
  options.port = "net_nothing0";
  EXPECT_FALSE(Device::Open(options).ok());
}

}  // namespace
}  // namespace pollux::engine
