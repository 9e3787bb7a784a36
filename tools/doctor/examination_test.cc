#include "tools/doctor/examination.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/doctor/fake_host_for_test.h"

namespace pollux::tools {
namespace {

constexpr uint64_t kMemoryMib = 512;
constexpr char kNic[] = "/sys/bus/pci/devices/0000:03:00.0";

class ExaminationTest : public FakeHostTest {
 protected:
  // A host that lacks nothing for any kind of port.
  void SetUp() override {
    FakeHostTest::SetUp();
    Folder("/sys/devices/system/cpu");
    Capabilities("000001ffffffffff");
    Write("/proc/self/limits", "Max locked memory         unlimited  unlimited  bytes\n");
    HugePages(512, 512);
    Write("/sys/devices/system/cpu/isolated", "2-5\n");
    Write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    Write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n");
    Write("/dev/net/tun", "");
    Folder("/sys/kernel/iommu_groups/7");
    Folder("/sys/bus/pci/drivers/vfio-pci");
    Write(std::string(kNic) + "/vendor", "0x8086\n");
    Write(std::string(kNic) + "/device", "0x1572\n");
    Link(std::string(kNic) + "/driver", "../../../bus/pci/drivers/vfio-pci");
    Folder("/sys/kernel/iommu_groups/7/devices/0000:03:00.0");
    Link(std::string(kNic) + "/iommu_group", host_.root + "/sys/kernel/iommu_groups/7");
    Write("/dev/vfio/7", "");
  }

  void HugePages(int total, int free) {
    const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
    Write(folder + "nr_hugepages", std::to_string(total) + "\n");
    Write(folder + "free_hugepages", std::to_string(free) + "\n");
  }

  void Driver(const std::string& name) {
    std::filesystem::remove(host_.root + kNic + "/driver");
    if (!name.empty()) Link(std::string(kNic) + "/driver", "../../drivers/" + name);
  }

  void Capabilities(const char* effective, const char* bounding = "000001ffffffffff") {
    Write("/proc/self/status",
          std::string("CapEff:\t") + effective + "\nCapBnd:\t" + bounding + "\n");
  }

  std::vector<Finding> All(const std::string& netdev, const std::string& port = "") {
    return Examine(host_, *ChoosePort(netdev, port), kMemoryMib);
  }

  static std::vector<std::string> Names(const std::vector<Finding>& findings, bool lacking) {
    std::vector<std::string> names;
    for (const Finding& one : findings) {
      if (lacking ? one.lacking() : !one.good && !one.needed) names.push_back(one.name);
    }
    return names;
  }

  // The one of that name, which must be there.
  Finding One(const std::string& name, const std::string& netdev, const std::string& port = "") {
    for (const Finding& one : All(netdev, port)) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << "no finding " << name;
    return {};
  }
  Finding OfNetdev(const std::string& name) { return One(name, "eth0"); }
  Finding OfNic(const std::string& name) { return One(name, "", "03:00.0"); }
};

using Strings = std::vector<std::string>;

TEST_F(ExaminationTest, NothingIsMissingOnAPreparedHost) {
  for (const auto& [netdev, port] : {std::pair("eth0", ""),
                                     {"", "0000:03:00.0"},
                                     {"", ""},
                                     {"", "net_tap0,iface=plx0"},
                                     {"", "net_memif0,role=server"},
                                     {"", "net_af_xdp0,iface=eth0"}}) {
    facts_.addresses = netdev == std::string() ? 0 : 1;
    const std::vector<Finding> findings = All(netdev, port);
    EXPECT_EQ(Names(findings, true), Strings{}) << netdev << port;
    EXPECT_EQ(Names(findings, false), Strings{}) << netdev << port;
    for (const Finding& one : findings) {
      EXPECT_EQ(one.command, "") << one.name;
      EXPECT_STREQ(one.state(), "ok");
      EXPECT_FALSE(one.found.empty()) << one.name;
      EXPECT_FALSE(one.wanted.empty()) << one.name;
    }
  }
}

// Without any file, each finding is lacking or advice, and has a command.
TEST_F(ExaminationTest, WithoutAnyFileEachFindingHasACommand) {
  std::filesystem::remove_all(host_.root);
  std::filesystem::create_directory(host_.root);
  EXPECT_EQ(Names(All("eth0"), true), (Strings{"sysfs", "CAP_NET_RAW", "CAP_NET_ADMIN"}));
  EXPECT_EQ(Names(All("", "03:00.0"), true), (Strings{"sysfs", "PCI device", "memlock"}));
  EXPECT_EQ(Names(All("", "net_tap0"), true), (Strings{"sysfs", "tun device", "CAP_NET_ADMIN"}));
  EXPECT_EQ(Names(All("", "net_memif0"), true), Strings{"sysfs"});
  // Without a port every finding is advice.
  EXPECT_EQ(Names(All("", ""), true), Strings{});
  for (const Finding& one : All("", "")) {
    EXPECT_EQ(one.command.empty(), one.good) << one.name;
  }
}

TEST_F(ExaminationTest, AnotherDpdkVersionIsReported) {
  host_.dpdk_version = "DPDK 23.11.0";
  EXPECT_EQ(Names(All("eth0"), false), Strings{"DPDK"});
}

TEST_F(ExaminationTest, AMissingInterfaceIsReported) {
  const std::vector<Finding> findings = All("eth1");
  EXPECT_EQ(Names(findings, true), Strings{"interface"});
}

TEST_F(ExaminationTest, ALoopbackInterfaceIsReported) {
  facts_.loopback = true;
  EXPECT_EQ(Names(All("eth0"), true), Strings{"interface"});
  EXPECT_EQ(OfNetdev("interface").found, "loopback addresses are not served");
}

TEST_F(ExaminationTest, LinkStateIsReported) {
  facts_.up = false;
  EXPECT_EQ(OfNetdev("link").command, "ip link set eth0 up");
  EXPECT_TRUE(OfNetdev("link").lacking());
  facts_.up = true;
  facts_.carrier = false;
  EXPECT_EQ(OfNetdev("link").found, "up, no carrier");
  EXPECT_TRUE(OfNetdev("link").lacking());
}

TEST_F(ExaminationTest, AnMtuBelowTheLargestPathMtuIsReported) {
  facts_.mtu = 1500;
  Finding mtu = OfNetdev("MTU");
  EXPECT_STREQ(mtu.state(), "advice");
  EXPECT_EQ(mtu.found, "1500: path MTU 1024");
  EXPECT_EQ(mtu.command, "ip link set eth0 mtu 4192  # also on the peer and on switches between");
  facts_.mtu = 351;
  EXPECT_TRUE(OfNetdev("MTU").lacking());
  facts_.mtu = 352;
  EXPECT_EQ(OfNetdev("MTU").found, "352: path MTU 256");
  facts_.mtu = 4192;
  EXPECT_TRUE(OfNetdev("MTU").good);
  EXPECT_EQ(One("MTU", "", "net_af_xdp0,iface=eth0").found, "4192: path MTU 2048");
  EXPECT_TRUE(One("MTU", "", "net_af_xdp0,iface=eth0").good);
}

TEST_F(ExaminationTest, TheMtuOfInterfacesBelowIsReported) {
  facts_.lower = {{.name = "eth1", .mtu = 1500}, {.name = "bond0", .mtu = 9000}};
  facts_.mtu = 4192;
  Finding mtu = OfNetdev("MTU");
  EXPECT_STREQ(mtu.state(), "advice");
  EXPECT_EQ(mtu.found, "1500 of eth1: path MTU 1024");
  EXPECT_EQ(mtu.command, "ip link set eth1 mtu 4192  # also on the peer and on switches between");
  facts_.mtu = 1500;
  mtu = OfNetdev("MTU");
  EXPECT_EQ(mtu.found, "1500: path MTU 1024");
  EXPECT_EQ(mtu.command,
            "ip link set eth1 mtu 4192; ip link set eth0 mtu 4192  # also on the peer and on "
            "switches between");
  facts_.lower[0].mtu = facts_.mtu = 4192;
  EXPECT_TRUE(OfNetdev("MTU").good);
}

TEST(PathMtuTest, EachPathMtuNeedsItsInterfaceMtu) {
  EXPECT_EQ(PathMtuOf(0), 0u);
  EXPECT_EQ(PathMtuOf(351), 0u);
  EXPECT_EQ(PathMtuOf(352), 256u);
  EXPECT_EQ(PathMtuOf(1119), 512u);
  EXPECT_EQ(PathMtuOf(1120), 1024u);
  EXPECT_EQ(PathMtuOf(4191), 2048u);
  EXPECT_EQ(PathMtuOf(9000), 4096u);
}

TEST_F(ExaminationTest, OnlyASharedInterfaceNeedsAnAddress) {
  facts_.addresses = 0;
  EXPECT_TRUE(OfNetdev("address").lacking());
  EXPECT_TRUE(One("address", "", "net_af_packet0,iface=eth0").good);
  facts_.addresses = 2;
  EXPECT_TRUE(OfNetdev("address").good);
  const Finding advice = One("address", "", "net_af_packet0,iface=eth0");
  EXPECT_STREQ(advice.state(), "advice");
  EXPECT_EQ(advice.command, "# use --netdev eth0");
}

TEST_F(ExaminationTest, TheProcessThatUsesTheRocePortIsNamed) {
  facts_.roce_port_taken = true;
  UdpSocket("/proc/net/udp", 4791, 77);
  Write("/proc/123/comm", "pollux\n");
  Link("/proc/123/fd/4", "socket:[77]");
  Finding port = OfNetdev("UDP port 4791");
  EXPECT_TRUE(port.lacking());
  EXPECT_EQ(port.found, "taken by pollux (process 123)");
  EXPECT_EQ(port.command, "kill 123");
  // A process may give itself any name.
  Write("/proc/123/comm", "\033[31m\n");
  EXPECT_EQ(OfNetdev("UDP port 4791").found.find('\033'), std::string::npos);
  Write("/proc/123/comm", "pollux\n");
  // On another interface.
  facts_.roce_port_taken = false;
  port = OfNetdev("UDP port 4791");
  EXPECT_TRUE(port.good);
  EXPECT_EQ(port.found, "free for Pollux; used by pollux (process 123)");
  // Without an interface, any interface's claim of a Pollux program counts.
  port = One("UDP port 4791", "");
  EXPECT_STREQ(port.state(), "advice");
  EXPECT_EQ(port.command, "kill 123");
  const std::string socket = "0000000000000000: 00000002 00000000 00000000 0002 01 78 ";
  Write("/proc/thread-self/net/unix", socket + "@pollux/2/queue_pairs/4\n");
  EXPECT_STREQ(One("UDP port 4791", "").state(), "advice");
  Write("/proc/thread-self/net/unix", socket + "@pollux/2/udp/4791\n");
  port = One("UDP port 4791", "");
  EXPECT_TRUE(port.good);
  // Another program may use it on another interface.
  EXPECT_EQ(port.found, "shared by programs of Pollux; used by pollux (process 123)");
}

TEST_F(ExaminationTest, RxeUsingTheRocePortIsReported) {
  facts_.roce_port_taken = true;
  UdpSocket("/proc/net/udp", 4791, 77);
  EXPECT_EQ(OfNetdev("UDP port 4791").found,
            "taken by the kernel, or a process that is not visible here");
  EXPECT_EQ(OfNetdev("UDP port 4791").command, "ss -ulpn sport = 4791  # as root");
  Folder("/sys/module/rdma_rxe");
  EXPECT_EQ(OfNetdev("UDP port 4791").found,
            "taken by rdma_rxe, or a process that is not visible here");
  EXPECT_EQ(OfNetdev("UDP port 4791").command, "modprobe -r rdma_rxe");
  Write("/sys/class/infiniband/rxe0/parent", "eth1\n");
  EXPECT_EQ(OfNetdev("UDP port 4791").command, "modprobe -r rdma_rxe");
  Write("/sys/class/infiniband/rxe1/parent", "eth0\n");
  EXPECT_EQ(OfNetdev("UDP port 4791").command, "rdma link delete rxe1; modprobe -r rdma_rxe");
}

TEST_F(ExaminationTest, RoceOfTheAdapterIsReported) {
  Folder("/sys/devices/pci/0000:03:00.0/infiniband/mlx5_0");
  Folder("/sys/class/net/eth0");
  Link("/sys/class/net/eth0/device", "../../../devices/pci/0000:03:00.0");
  const Finding found = OfNetdev("RoCE of the adapter");
  EXPECT_FALSE(found.good);
  EXPECT_FALSE(found.needed);
  EXPECT_NE(found.found.find("mlx5_0"), std::string::npos) << found.found;
  EXPECT_EQ(found.command, "# disable RoCE in the adapter's configuration");
  Folder("/sys/bus/pci/drivers/mlx5_core");
  Link("/sys/devices/pci/0000:03:00.0/driver", "../../../bus/pci/drivers/mlx5_core");
  const std::string command = OfNetdev("RoCE of the adapter").command;
  EXPECT_NE(command.find("pci/0000:03:00.0"), std::string::npos) << command;
}

TEST_F(ExaminationTest, EachKindOfPortHasItsRequiredCapabilities) {
  Capabilities("0000000000000000");
  EXPECT_EQ(Names(All("eth0"), true), (Strings{"CAP_NET_RAW", "CAP_NET_ADMIN"}));
  EXPECT_EQ(Names(All("", "net_tap0"), true), Strings{"CAP_NET_ADMIN"});
  EXPECT_EQ(Names(All("", "net_memif0"), true), Strings{});
  EXPECT_EQ(Names(All("", "net_af_xdp0,iface=eth0"), true),
            (Strings{"CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"}));
  EXPECT_EQ(Names(All("", "0000:03:00.0"), true), Strings{});
  // Without a port nothing is known to be needed.
  EXPECT_EQ(Names(All("", ""), true), Strings{});
  EXPECT_EQ(Names(All("", ""), false), (Strings{"CAP_NET_RAW", "CAP_NET_ADMIN"}));
  Capabilities("0000000000002000");
  EXPECT_EQ(Names(All("eth0"), true), Strings{"CAP_NET_ADMIN"});
  EXPECT_NE(OfNetdev("CAP_NET_ADMIN").command.find("+net_raw,+net_admin"), std::string::npos);
  Capabilities("0000000000003000");
  EXPECT_EQ(Names(All("eth0"), true), Strings{});
  Capabilities("0000000000203000");  // CAP_SYS_ADMIN includes CAP_BPF
  EXPECT_EQ(Names(All("", "net_af_xdp0,iface=eth0"), true), Strings{});
}

TEST_F(ExaminationTest, ACapabilityMissingInAContainerIsReported) {
  Capabilities("0000000000002000", "0000000000002000");
  EXPECT_EQ(Names(All("eth0"), true), Strings{"CAP_NET_ADMIN"});
  EXPECT_EQ(OfNetdev("CAP_NET_ADMIN").command, "# give the container --cap-add=NET_ADMIN");
}

TEST_F(ExaminationTest, AnUnusableTunDeviceIsReported) {
  std::filesystem::remove(host_.root + "/dev/net/tun");
  const Finding tun = One("tun device", "", "net_tap0");
  EXPECT_TRUE(tun.lacking());
  EXPECT_EQ(tun.command, "modprobe tun  # or, in a container: --device=/dev/net/tun");
}

TEST_F(ExaminationTest, AMissingNicIsReported) {
  EXPECT_EQ(Names(All("", "04:00.0"), true), Strings{"PCI device"});
}

TEST_F(ExaminationTest, ANicWithAKernelDriverIsReported) {
  Driver("i40e");
  Folder(std::string(kNic) + "/net/ens1f0");
  const Finding driver = OfNic("driver");
  EXPECT_TRUE(driver.lacking());
  EXPECT_EQ(driver.found, "i40e, the kernel's ens1f0");
  EXPECT_EQ(driver.command, "ip link set ens1f0 down; dpdk-devbind.py -b vfio-pci 0000:03:00.0");
  std::filesystem::remove_all(host_.root + kNic + "/net");
  Driver("virtio-pci");
  Folder(std::string(kNic) + "/virtio1/net/eth1");
  EXPECT_EQ(OfNic("driver").found, "virtio-pci, the kernel's eth1");
  EXPECT_EQ(OfNic("driver").command,
            "ip link set eth1 down; dpdk-devbind.py -b vfio-pci 0000:03:00.0");
  std::filesystem::remove_all(host_.root + kNic + "/virtio1");
  Driver("");
  EXPECT_EQ(OfNic("driver").found, "none");
  EXPECT_TRUE(OfNic("driver").lacking());
  // DPDK drives it beside the kernel.
  Driver("mlx5_core");
  EXPECT_EQ(Names(All("", "03:00.0"), true), Strings{});
}

TEST_F(ExaminationTest, ADisabledIommuIsReported) {
  std::filesystem::remove(host_.root + kNic + "/iommu_group");
  std::filesystem::remove_all(host_.root + "/sys/kernel/iommu_groups");
  Finding iommu = OfNic("IOMMU");
  EXPECT_TRUE(iommu.lacking());
  EXPECT_NE(iommu.command.find("intel_iommu=on iommu=pt"), std::string::npos);
  Write("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
  EXPECT_NE(OfNic("IOMMU").command.find("amd_iommu=on"), std::string::npos);
  EXPECT_STREQ(One("IOMMU", "").state(), "advice");
  Write("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
  EXPECT_TRUE(OfNic("IOMMU").good);
}

TEST_F(ExaminationTest, AnUnloadedVfioModuleIsReported) {
  std::filesystem::remove_all(host_.root + "/sys/bus/pci/drivers");
  Driver("i40e");
  EXPECT_EQ(Names(All("", "03:00.0"), true), (Strings{"vfio", "driver"}));
  EXPECT_EQ(OfNic("vfio").command, "modprobe vfio-pci");
}

TEST_F(ExaminationTest, OtherDevicesInTheIommuGroupAreReported) {
  for (const char* const other : {"0000:03:00.1", "0000:00:1c.0", "0000:03:00.2"}) {
    Folder(std::string("/sys/kernel/iommu_groups/7/devices/") + other);
  }
  Link("/sys/bus/pci/devices/0000:03:00.1/driver", "../../drivers/i40e");
  Link("/sys/bus/pci/devices/0000:00:1c.0/driver", "../../drivers/pcieport");
  const Finding group = OfNic("IOMMU group");
  EXPECT_TRUE(group.lacking());
  EXPECT_EQ(group.found, "also 0000:03:00.1, with kernel drivers");
}

TEST_F(ExaminationTest, AnUnusableDeviceFileIsReported) {
  std::filesystem::remove(host_.root + "/dev/vfio/7");
  EXPECT_TRUE(OfNic("device file").lacking());
  EXPECT_EQ(OfNic("device file").command, "# in a container: --device=/dev/vfio/7");
  Write("/dev/vfio/7", "");
  std::filesystem::permissions(host_.root + "/dev/vfio/7", std::filesystem::perms::none);
  const Finding file = OfNic("device file");
  // Root may use every file.
  EXPECT_EQ(file.command, file.good ? "" : "chown USER /dev/vfio/7");
}

TEST_F(ExaminationTest, VfioWithoutAnIommuIsReported) {
  Write("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
  Write("/sys/kernel/iommu_groups/7/name", "vfio-noiommu\n");
  EXPECT_EQ(OfNic("device file").found, "no /dev/vfio/noiommu-7");
  Write("/dev/vfio/noiommu-7", "");
  EXPECT_EQ(Names(All("", "03:00.0"), true), Strings{});
  EXPECT_EQ(OfNic("IOMMU").found, "off; vfio works without one (unsafe)");
  EXPECT_EQ(One("IOMMU", "").found, "off; vfio works without one (unsafe)");
  // DPDK uses physical addresses, and nothing is pinned.
  HugePages(0, 0);
  Capabilities("000001ffffdd3fff");  // without IPC_LOCK, SYS_RAWIO and SYS_ADMIN
  Write("/proc/self/limits", "Max locked memory         65536  unlimited  bytes\n");
  EXPECT_EQ(Names(All("", "03:00.0"), true),
            (Strings{"CAP_SYS_ADMIN", "CAP_SYS_RAWIO", "huge pages"}));
  // With the parameter, DPDK does so even behind an IOMMU.
  Write("/sys/kernel/iommu_groups/7/name", "\n");
  EXPECT_EQ(OfNic("IOMMU").found, "on, 1 groups");
  EXPECT_EQ(Names(All("", "03:00.0"), true), (Strings{"CAP_SYS_ADMIN", "memlock", "huge pages"}));
  // The folder is there, and no file in it is this device's.
  std::filesystem::remove(host_.root + kNic + "/iommu_group");
  EXPECT_TRUE(OfNic("device file").lacking());
  EXPECT_EQ(OfNic("device file").found, "no IOMMU group");
}

TEST_F(ExaminationTest, UioNeedsHugePagesAndNoIommu) {
  Driver("uio_pci_generic");
  Folder(std::string(kNic) + "/uio/uio3");
  Write("/dev/uio3", "");
  std::filesystem::remove_all(host_.root + "/sys/kernel/iommu_groups");
  EXPECT_EQ(Names(All("", "03:00.0"), true), Strings{});
  HugePages(0, 0);
  EXPECT_EQ(Names(All("", "03:00.0"), true), Strings{"huge pages"});
  Capabilities("0000000000003000");
  EXPECT_EQ(Names(All("", "03:00.0"), true), (Strings{"CAP_SYS_ADMIN", "huge pages"}));
}

TEST_F(ExaminationTest, HugePagesAreCountedAndRecommended) {
  HugePages(100, 10);
  const Finding pages = OfNetdev("huge pages");
  EXPECT_STREQ(pages.state(), "advice");
  EXPECT_EQ(pages.found, "20 MiB free, of pages of 2048 KiB");
  // 90 are in use, and 256 are to be free.
  EXPECT_EQ(pages.command, "echo 346 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  HugePages(300, 290);
  EXPECT_TRUE(OfNetdev("huge pages").good);
  Write("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "280\n");
  EXPECT_EQ(OfNetdev("huge pages").found, "20 MiB free, of pages of 2048 KiB");
  EXPECT_FALSE(OfNetdev("huge pages").good);
  Write("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
  EXPECT_TRUE(OfNetdev("huge pages").good);
  std::filesystem::remove_all(host_.root + "/sys/kernel/mm/hugepages");
  EXPECT_EQ(OfNetdev("huge pages").found, "none in this kernel");
}

TEST_F(ExaminationTest, SmallerHugePagesAreRecommendedIfNoneAreFree) {
  HugePages(0, 0);
  Write("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n");
  EXPECT_EQ(OfNetdev("huge pages").command,
            "echo 256 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
}

TEST_F(ExaminationTest, TooLittleLockedMemoryIsReported) {
  Capabilities("0000000000003000");
  Write("/proc/self/limits", "Max locked memory         536870912  unlimited  bytes\n");
  EXPECT_TRUE(OfNic("memlock").lacking());
  Write("/proc/self/limits", "Max locked memory         536870913  unlimited  bytes\n");
  EXPECT_TRUE(OfNic("memlock").good);
  Write("/proc/self/limits", "Max locked memory         65536  unlimited  bytes\n");
  EXPECT_STREQ(One("memlock", "").state(), "advice");
  Capabilities("0000000000004000");  // CAP_IPC_LOCK
  EXPECT_TRUE(OfNic("memlock").good);
}

TEST_F(ExaminationTest, LockedMemoryIsWholeHugePages) {
  const std::string sizes = "/sys/kernel/mm/hugepages/";
  Capabilities("0000000000003000");
  Write("/proc/self/limits", "Max locked memory         536870913  unlimited  bytes\n");
  Write(sizes + "hugepages-1048576kB/free_hugepages", "1\n");
  EXPECT_TRUE(OfNic("memlock").good);
  HugePages(0, 0);
  EXPECT_TRUE(OfNic("memlock").lacking());
  EXPECT_EQ(OfNic("memlock").wanted, "more than 1024 MiB, or CAP_IPC_LOCK");
  Write("/proc/self/limits", "Max locked memory         1073741825  unlimited  bytes\n");
  EXPECT_TRUE(OfNic("memlock").good);
  // The largest pages are taken first.
  Write("/proc/self/limits", "Max locked memory         536870913  unlimited  bytes\n");
  HugePages(512, 512);
  Write(sizes + "hugepages-32768kB/free_hugepages", "20\n");
  const auto wanted = [this](uint64_t memory_mib) {
    for (const Finding& one : Examine(host_, *ChoosePort("", "03:00.0"), memory_mib)) {
      if (one.name == "memlock") return one.wanted;
    }
    return std::string();
  };
  EXPECT_EQ(wanted(513), "more than 514 MiB, or CAP_IPC_LOCK");
  EXPECT_EQ(wanted(641), "more than 642 MiB, or CAP_IPC_LOCK");
  HugePages(400, 400);
  EXPECT_EQ(wanted(701), "more than 702 MiB, or CAP_IPC_LOCK");
  EXPECT_EQ(wanted(1441), "more than 1441 MiB, or CAP_IPC_LOCK");
  HugePages(0, 0);
  EXPECT_EQ(wanted(513), "more than 544 MiB, or CAP_IPC_LOCK");
  // Without huge pages.
  std::filesystem::remove_all(host_.root + sizes);
  EXPECT_EQ(wanted(513), "more than 513 MiB, or CAP_IPC_LOCK");
}

TEST_F(ExaminationTest, UnsuitableCpusAndClockAreReported) {
  Write("/sys/devices/system/cpu/isolated", "\n");
  const std::string states = "/sys/devices/system/cpu/cpu0/cpuidle/";
  for (const auto& [state, name, us] :
       {std::tuple("state0", "POLL", "0"), {"state1", "C1", "2"}, {"state2", "C6", "133"}}) {
    Write(states + state + "/name", std::string(name) + "\n");
    Write(states + state + "/latency", std::string(us) + "\n");
    Write(states + state + "/disable", "0\n");
  }
  Write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  EXPECT_EQ(Names(All("eth0"), false), (Strings{"CPU isolation", "C-states", "clock source"}));
  EXPECT_EQ(OfNetdev("C-states").found, "down to C6, 133 us to wake");
  EXPECT_NE(OfNetdev("clock source").command.find("echo tsc > "), std::string::npos);
  Write(states + "state2/disable", "1\n");
  EXPECT_TRUE(OfNetdev("C-states").good);
  Write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet\n");
  EXPECT_NE(OfNetdev("clock source").command.find("boot with"), std::string::npos);
}

}  // namespace
}  // namespace pollux::tools
