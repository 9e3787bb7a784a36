#include "tools/common/port_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace pollux::tools {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace pollux::tools
