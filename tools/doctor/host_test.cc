#include "tools/doctor/host.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/doctor/fake_host_for_test.h"

namespace pollux::tools {
namespace {

class HostTest : public FakeHostTest {};

TEST_F(HostTest, MissingFilesReadAsEmpty) {
  EXPECT_EQ(host_.Text("/proc/nothing"), "");
  EXPECT_EQ(host_.Line("/proc/nothing"), "");
  EXPECT_TRUE(host_.List("/proc/nothing").empty());
  EXPECT_EQ(host_.LinkName("/proc/nothing"), "");
  EXPECT_FALSE(host_.Exists("/proc/nothing"));
  EXPECT_FALSE(host_.CanUse("/proc/nothing"));
  EXPECT_EQ(EffectiveCapabilities(host_), 0u);
  EXPECT_EQ(BoundingCapabilities(host_), 0u);
  EXPECT_EQ(LockedMemoryLimit(host_), 0u);
  EXPECT_TRUE(OwnersOfUdpPort(host_, 4791).empty());
}

TEST_F(HostTest, FilesAndLinksAreRead) {
  Write("/sys/two", " first \nsecond\n");
  Link("/sys/a/driver", "../../bus/pci/drivers/vfio-pci");
  EXPECT_EQ(host_.Line("/sys/two"), "first");
  EXPECT_EQ(host_.Text("/sys/two"), " first \nsecond\n");
  EXPECT_EQ(host_.LinkName("/sys/a/driver"), "vfio-pci");
  EXPECT_EQ(host_.List("/sys"), (std::vector<std::string>{"a", "two"}));
}

TEST_F(HostTest, CapabilitiesAndLimitsAreRead) {
  Write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000003000\nCapBnd:\t0000000000007000\n");
  EXPECT_EQ(EffectiveCapabilities(host_), 0x3000u);
  EXPECT_EQ(BoundingCapabilities(host_), 0x7000u);
  Write("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max locked memory         8388608              unlimited            bytes\n");
  EXPECT_EQ(LockedMemoryLimit(host_), 8388608u);
  Write("/proc/self/limits",
        "Max locked memory         unlimited            unlimited            bytes\n");
  EXPECT_EQ(LockedMemoryLimit(host_), std::nullopt);
}

TEST_F(HostTest, OwnersOfAUdpPortAreFound) {
  UdpSocket("/proc/net/udp", 4791, 77);
  UdpSocket("/proc/net/udp6", 4791, 78);
  UdpSocket("/proc/net/udp", 53, 79);
  Write("/proc/123/comm", "pollux\n");
  Link("/proc/123/fd/4", "socket:[77]");
  Link("/proc/123/fd/5", "socket:[78]");
  Write("/proc/124/comm", "named\n");
  Link("/proc/124/fd/4", "socket:[79]");
  const std::vector<PortOwner> owners = OwnersOfUdpPort(host_, 4791);
  ASSERT_EQ(owners.size(), 1u);
  EXPECT_EQ(owners[0].name, "pollux");
  EXPECT_EQ(owners[0].pid, 123u);
}

TEST_F(HostTest, InvisibleOwnersAreCounted) {
  UdpSocket("/proc/net/udp", 4791, 77);
  UdpSocket("/proc/net/udp6", 4791, 0);
  Write("/proc/123/comm", "pollux\n");
  Link("/proc/123/fd/4", "socket:[77]");
  const std::vector<PortOwner> owners = OwnersOfUdpPort(host_, 4791);
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(owners[0].pid, 123u);
  EXPECT_EQ(owners[1].pid, 0u);
}

TEST_F(HostTest, InterfacesBelowAreFound) {
  const std::string net = "/sys/class/net/";
  Link(net + "br0/lower_eth0.5", "../eth0.5");
  Link(net + "br0/lower_eth1", "../eth1");
  Link(net + "br0/upper_br0.7", "../br0.7");
  Link(net + "eth0.5/lower_eth0", "../eth0");
  Write(net + "eth0.5/mtu", "1400\n");
  Write(net + "eth0/mtu", "1500\n");
  Write(net + "eth1/mtu", "9000\n");
  const std::vector<LowerInterface> lower = LowerInterfaces(host_, "br0");
  ASSERT_EQ(lower.size(), 3u);
  EXPECT_EQ(lower[0].name, "eth0");
  EXPECT_EQ(lower[0].mtu, 1500u);
  EXPECT_EQ(lower[1].name, "eth1");
  EXPECT_EQ(lower[2].name, "eth0.5");
  EXPECT_TRUE(LowerInterfaces(host_, "eth0").empty());
}

TEST(LookAtInterfaceTest, LoopbackIsFoundAndUnknownNamesAreNot) {
  const auto loopback = LookAtInterface("lo");
  ASSERT_TRUE(loopback);
  EXPECT_GT(loopback->mtu, 0u);
  EXPECT_TRUE(loopback->loopback);
  EXPECT_FALSE(LookAtInterface("nosuch0"));
  EXPECT_FALSE(LookAtInterface("a-name-that-is-too-long-for-an-interface"));
}

TEST(LookAtInterfaceTest, ATakenRocePortIsDetected) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(fd, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
      << "the test runs in a network namespace of its own";
  EXPECT_TRUE(LookAtInterface("lo")->roce_port_taken);
  bool named = false;
  for (const PortOwner& owner : OwnersOfUdpPort(Host{}, 4791)) {
    named |= owner.pid == static_cast<uint64_t>(getpid());
  }
  EXPECT_TRUE(named);
  close(fd);
  EXPECT_FALSE(LookAtInterface("lo")->roce_port_taken);
}

}  // namespace
}  // namespace pollux::tools
