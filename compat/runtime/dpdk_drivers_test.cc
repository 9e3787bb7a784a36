#include "compat/runtime/dpdk_drivers.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace pollux::compat {
namespace {

TEST(DpdkDrivers, ThatOfThePortAndThatOfPools) {
  engine::DeviceOptions options;
  options.netdev = "eth0";
  const std::vector<std::string> of_netdev = DriverFiles(options);
  ASSERT_EQ(of_netdev.size(), 2u);
  EXPECT_NE(of_netdev[1].find("net_af_packet"), std::string::npos);
  options.netdev.clear();
  for (const char* port :
       {"net_tap0,iface=plx0", "net_memif0,role=client", "net_af_xdp0,iface=x"}) {
    options.port = port;
    const std::vector<std::string> files = DriverFiles(options);
    ASSERT_EQ(files.size(), 2u) << port;
    for (const std::string& file : files) EXPECT_EQ(access(file.c_str(), R_OK), 0) << file;
  }
}

TEST(DpdkDrivers, AllOfThemForADeviceOfAnyKind) {
  engine::DeviceOptions options;
  for (const char* port : {"0000:03:00.0", "net_pcap0,iface=x", "net_ring0"}) {
    options.port = port;
    EXPECT_TRUE(DriverFiles(options).empty()) << port;
  }
}

}  // namespace
}  // namespace pollux::compat
