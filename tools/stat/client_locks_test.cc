#include "tools/stat/client_locks.h"

#include <gtest/gtest.h>

#include "stack/base/stats.h"

namespace pollux::tools {
namespace {

TEST(ClientLocks, LinesRoundTrip) {
  nfs::LockClient client{.address = Gid::FromIpv4(0xC0000207), .name = "a host\n"};
  const nfs::ClientLocks locks{.files = 1, .ranges = 20, .awaited = 3, .shares = 4};
  EXPECT_EQ(LineOf(client, locks), "192.0.2.7 1 20 3 4 a host\\n");
  const auto parsed = ParseLocks(LineOf(client, locks));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->dump(), R"({"address":"192.0.2.7","name":"a host\\n","files":1,"ranges":20,)"
                            R"("awaited":3,"shares":4})");
  const std::string text = LocksText(nlohmann::ordered_json::array({*parsed}));
  EXPECT_NE(text.find("192.0.2.7"), std::string::npos) << text;
  EXPECT_NE(text.find("awaited"), std::string::npos) << text;
  client.name = std::string(1024, 'x');
  EXPECT_EQ(LineOf(client, locks).size(), pollux::Stats::kMaxText);
  EXPECT_TRUE(ParseLocks(LineOf(client, locks)).ok());
}

TEST(ClientLocks, InvalidLinesAreDataLoss) {
  for (const char* line : {"", "192.0.2.7", "192.0.2.7 1 2 3 x name", "192.0.2.7 1 2 3 4"}) {
    EXPECT_EQ(ParseLocks(line).status().code(), absl::StatusCode::kDataLoss) << line;
  }
}

}  // namespace
}  // namespace pollux::tools
