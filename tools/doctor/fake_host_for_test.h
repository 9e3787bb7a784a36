// A copy of files of /proc, /sys and /dev in a temporary directory.
#ifndef POLLUX_TOOLS_DOCTOR_FAKE_HOST_FOR_TEST_H_
#define POLLUX_TOOLS_DOCTOR_FAKE_HOST_FOR_TEST_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_format.h"
#include "tools/doctor/host.h"

namespace pollux::tools {

class FakeHostTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/fake_host_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    host_.root = pattern;
    host_.dpdk_version = "DPDK 22.11.11";
    host_.interface = [this](const std::string& name) {
      return name == "eth0" ? std::optional(facts_) : std::nullopt;
    };
  }
  void TearDown() override { std::filesystem::remove_all(host_.root); }

  void Write(const std::string& path, const std::string& text) {
    Parent(path);
    std::ofstream(host_.root + path) << text;
  }
  void Link(const std::string& path, const std::string& leads_to) {
    Parent(path);
    std::filesystem::create_symlink(leads_to, host_.root + path);
  }
  void Folder(const std::string& path) { std::filesystem::create_directories(host_.root + path); }

  // Adds the line of a socket that is bound to `port` to a file of /proc/net.
  void UdpSocket(const std::string& path, uint16_t port, uint64_t inode) {
    Parent(path);
    std::ofstream(host_.root + path, std::ios::app)
        << (host_.Text(path).empty() ? "   sl  local_address rem_address   st ...\n" : "")
        << absl::StrFormat(
               "  106: 00000000:%04X 00000000:0000 07 00000000:00000000 00:00000000 00000000     "
               "0        0 %u 2 0000000000000000 0\n",
               port, inode);
  }

  Host host_;
  InterfaceFacts facts_{.up = true, .carrier = true, .mtu = 4200, .addresses = 1};

 private:
  void Parent(const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(host_.root + path).parent_path());
  }
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_FAKE_HOST_FOR_TEST_H_
