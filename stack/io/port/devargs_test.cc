#include "stack/io/port/devargs.h"

#include <gtest/gtest.h>

namespace pollux::io {
namespace {

TEST(Devargs, ParsesAVirtualDevice) {
  absl::StatusOr<Devargs> devargs = Devargs::Parse("net_memif0,role=server,rsize=11,mac=a=b");
  ASSERT_TRUE(devargs.ok());
  EXPECT_EQ(devargs->name(), "net_memif0");
  EXPECT_EQ(devargs->driver(), Driver::kMemif);
  EXPECT_EQ(devargs->Get("role"), "server");
  EXPECT_EQ(devargs->Get("mac"), "a=b");
  EXPECT_EQ(devargs->GetNumber("rsize"), 11u);
  EXPECT_EQ(devargs->GetNumber("role"), std::nullopt);
  EXPECT_EQ(devargs->Get("bsize"), std::nullopt);
}

TEST(Devargs, DefaultsDoNotReplaceGivenValues) {
  absl::StatusOr<Devargs> devargs = Devargs::Parse("net_af_packet0,framesz=2048");
  ASSERT_TRUE(devargs.ok());
  devargs->SetDefault("framesz", "8192");
  devargs->SetDefault("framecnt", "512");
  EXPECT_EQ(devargs->ToString(), "net_af_packet0,framesz=2048,framecnt=512");
}

TEST(Devargs, RecognizesDrivers) {
  EXPECT_EQ(Devargs::Parse("net_af_xdp0,iface=a")->driver(), Driver::kAfXdp);
  EXPECT_EQ(Devargs::Parse("net_tap0,iface=a")->driver(), Driver::kTap);
  EXPECT_EQ(Devargs::Parse("net_ring0")->driver(), Driver::kRing);
  EXPECT_EQ(Devargs::Parse("net_null0")->driver(), Driver::kOther);
  EXPECT_EQ(DriverOf("net_memif0,role=server"), Driver::kMemif);
  EXPECT_EQ(DriverOf("03:00.1,dv_flow_en=1"), Driver::kPci);
  EXPECT_EQ(DriverOf(""), Driver::kOther);
}

TEST(Devargs, CompletesAPciAddress) {
  EXPECT_EQ(Devargs::Parse("0000:03:00.0")->driver(), Driver::kPci);
  EXPECT_EQ(Devargs::Parse("03:00.1,dv_flow_en=1")->ToString(), "0000:03:00.1,dv_flow_en=1");
  EXPECT_EQ(Devargs::Parse("03:00.8")->driver(), Driver::kOther);
  EXPECT_EQ(Devargs::Parse("zz:00.0")->driver(), Driver::kOther);
}

TEST(Devargs, RefusesMalformedDevargs) {
  EXPECT_EQ(Devargs::Parse("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Devargs::Parse(",iface=x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Devargs::Parse("net_tap0,iface").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Devargs::Parse("net_tap0,=x").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Devargs, PciAddressesAreNamedAsDpdkNamesThem) {
  for (const char* text : {"3B:00.0", "3b:00.0", "0000:3B:00.0,key=Value"}) {
    const absl::StatusOr<Devargs> devargs = Devargs::Parse(text);
    ASSERT_TRUE(devargs.ok()) << devargs.status();
    EXPECT_EQ(devargs->name(), "0000:3b:00.0");
    EXPECT_EQ(devargs->driver(), Driver::kPci);
  }
}

}  // namespace
}  // namespace pollux::io
