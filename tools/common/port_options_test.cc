#include "tools/common/port_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "stack/base/address.h"

namespace pollux::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status ParseFilePrefix(std::string name, PortOptions* port) {
  Options options("test [options]", "About.");
  DeclareWireOptions(options, port);
  std::string command = "test", option = "--file-prefix";
  char* argv[] = {command.data(), option.data(), name.data(), nullptr};
  return options.Parse(3, argv, 0, 0).status();
}

TEST(PortOptionsTest, AFilePrefixIsValidUtf8) {
  PortOptions port;
  EXPECT_EQ(ParseFilePrefix("n\xC3\xA4mlich", &port), absl::OkStatus());
  EXPECT_EQ(port.eal.file_prefix, "n\xC3\xA4mlich");
  for (const char* const name : {"a\xFFz", "cut\xC3", "\xC0\xAF"}) {
    const absl::Status status = ParseFilePrefix(name, &port);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("UTF-8"));
  }
}

TEST(PortOptionsTest, APortThatForwardsAllFramesHasNeitherNetdevNorVlans) {
  PortOptions port;
  port.device.forwards_all = true;
  port.device.kernel_path = "plx0";
  Options options("test [options]", "About.");
  DeclareOwnPortOptions(options, &port);
  EXPECT_THAT(options.Help(), Not(HasSubstr("vlan")));
  EXPECT_THAT(std::string(CheckPortOptions(port).message()),
              AllOf(HasSubstr("--port DEVARGS"), Not(HasSubstr("--netdev"))));
  port.device.port = "net_null0";
  EXPECT_EQ(CheckPortOptions(port), absl::OkStatus());
  port.device.addresses = {*ParseInterfaceAddress("192.0.2.1/24,vlan=7")};
  const absl::Status refused = CheckPortOptions(port);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("`ip link add link plx0 name plx0.7 type vlan id 7`"));
  port.device.forwards_all = false;
  EXPECT_EQ(CheckPortOptions(port), absl::OkStatus());
}

}  // namespace
}  // namespace pollux::tools
