#include "rpcrdma/connection/refusal_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace pollux::rpcrdma {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMinuteNs = 60'000'000'000;

SocketAddress At(uint32_t host, uint16_t port = 4711) {
  return {.address = Gid::FromIpv4(0xC0000200 + host), .port = port};
}

class RefusalLogTest : public testing::Test {
 protected:
  void Listen() {
    log.SetSink([this](const std::string& line) { lines.push_back(line); });
  }
  RefusalLog log;
  std::vector<std::string> lines;
};

TEST_F(RefusalLogTest, ALineNamesThePeer) {
  Listen();
  log.Write(At(2), "what it did", kMinuteNs);
  EXPECT_THAT(lines, testing::ElementsAre("192.0.2.2:4711: what it did"));
}

TEST_F(RefusalLogTest, WithoutAListenerWriteDoesNothing) {
  log.Write(At(2), "what it did", kMinuteNs);
}

// By connection after connection, each from another port.
TEST_F(RefusalLogTest, EachAddressHasALimitPerMinute) {
  Listen();
  for (uint16_t i = 0; i < 100; ++i) log.Write(At(2, i), "again", kMinuteNs + i);
  EXPECT_EQ(lines.size(), RefusalLog::kLinesOfAddress);
  log.Write(At(3), "another", kMinuteNs + 100);
  ASSERT_EQ(lines.size(), RefusalLog::kLinesOfAddress + 1);
  EXPECT_THAT(lines.back(), HasSubstr("192.0.2.3:4711: another (92 lines"));
  log.Write(At(2), "later", 2 * kMinuteNs);
  EXPECT_EQ(lines.back(), "192.0.2.2:4711: later");
}

TEST_F(RefusalLogTest, AllAddressesShareALimitPerMinute) {
  Listen();
  const uint32_t hosts = 2 * PeerLogRateLimiter::kAddresses;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < hosts; ++i) log.Write(At(i), "one of many", kMinuteNs + i);
  }
  EXPECT_EQ(lines.size(), RefusalLog::kLines);
  log.Write(At(1), "later", 3 * kMinuteNs);
  EXPECT_THAT(lines.back(), HasSubstr(absl::StrCat(3 * hosts - RefusalLog::kLines, " lines")));
}

}  // namespace
}  // namespace pollux::rpcrdma
