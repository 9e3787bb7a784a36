#include "compat/runtime/settings.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

TEST(Settings, ANetdevIsParsed) {
  const absl::StatusOr<Settings> settings = Settings::Parse("netdev=veth0\n");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->device.netdev, "veth0");
  EXPECT_TRUE(settings->device.port.empty());
  EXPECT_FALSE(settings->device.dcqcn.has_value());
  EXPECT_FALSE(settings->core.has_value());
}

TEST(Settings, APortWithEverySettingIsParsed) {
  const absl::StatusOr<Settings> settings = Settings::Parse(
      "port=net_tap0,iface=plx0\nvlan=7\naddress=192.0.2.1/24\naddress=2001:db8::1/64,vlan=9\n"
      "gateway=192.0.2.254\nmac=02:00:00:00:00:01\nmtu=1500\ncore=1\nidle=sleep\nyield-after="
      "0\nmemory=128\n"
      "capture=/tmp/x=y\nsupervisor=/opt/a\nimpair=loss=0.5\ndcqcn\n");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->device.port, "net_tap0,iface=plx0");
  ASSERT_EQ(settings->device.addresses.size(), 2u);
  EXPECT_EQ(settings->device.addresses[0].vlan, 7);
  EXPECT_EQ(settings->device.addresses[1].vlan, 9);
  EXPECT_EQ(settings->device.gateways.size(), 1u);
  EXPECT_EQ(settings->device.mac, (MacAddress{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(settings->device.mtu, 1500);
  EXPECT_EQ(settings->core, 1);
  EXPECT_EQ(settings->idle, engine::Idle::kSleep);
  EXPECT_EQ(settings->yield_after, 0u);
  EXPECT_EQ(settings->eal.memory_mib, 128u);
  EXPECT_EQ(settings->capture, "/tmp/x=y");
  EXPECT_EQ(settings->supervisor, "/opt/a");
  EXPECT_TRUE(settings->device.impairment.Any());
  EXPECT_TRUE(settings->device.dcqcn.has_value());
}

TEST(Settings, ErrorsQuoteTheInvalidLine) {
  for (const char* line : {"nonsense=1", "mac=02:00", "address=192.0.2.1", "core=x", "memory=-1",
                           "gateway=", "idle=never", "impair=loss=2"}) {
    const absl::StatusOr<Settings> settings =
        Settings::Parse(std::string("netdev=veth0\n") + line + "\n");
    ASSERT_FALSE(settings.ok()) << line;
    EXPECT_NE(settings.status().message().find(line), absl::string_view::npos) << settings.status();
  }
}

TEST(Settings, WithoutAPortTheErrorNamesPolluxRun) {
  const absl::StatusOr<Settings> settings = Settings::Parse("");
  ASSERT_FALSE(settings.ok());
  EXPECT_NE(settings.status().message().find("pollux run"), absl::string_view::npos);
}

}  // namespace
}  // namespace pollux::compat
