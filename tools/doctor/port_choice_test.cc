#include "tools/doctor/port_choice.h"

#include <gtest/gtest.h>

namespace pollux::tools {
namespace {

PortKind KindOf(const std::string& devargs) { return ChoosePort("", devargs)->kind; }

TEST(PortChoiceTest, EveryKindOfPortIsRecognized) {
  EXPECT_EQ(ChoosePort("", "")->kind, PortKind::kNone);
  EXPECT_EQ(ChoosePort("eth0", "")->kind, PortKind::kNetdev);
  EXPECT_EQ(ChoosePort("eth0", "")->interface, "eth0");
  EXPECT_EQ(KindOf("net_memif0,role=server,socket=/tmp/m"), PortKind::kMemif);
  EXPECT_EQ(KindOf("net_tap0,iface=plx0"), PortKind::kTap);
  EXPECT_EQ(KindOf("net_af_packet0,iface=veth0"), PortKind::kAfPacket);
  EXPECT_EQ(ChoosePort("", "net_af_xdp0,start_queue=0,iface=veth1")->interface, "veth1");
  EXPECT_EQ(KindOf("net_af_xdp0,iface=veth1"), PortKind::kAfXdp);
}

TEST(PortChoiceTest, APciAddressIsCompletedByItsDomain) {
  EXPECT_EQ(KindOf("0000:03:00.1"), PortKind::kPci);
  EXPECT_EQ(ChoosePort("", "0000:03:00.1")->pci_address, "0000:03:00.1");
  EXPECT_EQ(ChoosePort("", "03:00.0")->pci_address, "0000:03:00.0");
  EXPECT_EQ(ChoosePort("", "0001:AF:1f.7,dv_flow_en=1")->pci_address, "0001:af:1f.7");
  EXPECT_FALSE(ChoosePort("", "0000:03:00.0x").ok());
}

TEST(PortChoiceTest, InvalidPortsAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(ChoosePort("eth0", "net_tap0").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ChoosePort("", "net_frob0").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ChoosePort("", "net_ring0").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ChoosePort("", "net_af_packet0").status()));
}

}  // namespace
}  // namespace pollux::tools
