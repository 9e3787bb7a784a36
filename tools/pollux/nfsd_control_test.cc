// The list of locks that `pollux locks` prints; tests/command has the rest.
#include "tools/pollux/nfsd_control.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/stat/client_locks.h"

namespace pollux::tools {
namespace {

constexpr size_t kTelemetryBytes = 16 * 1024;  // of a reply of DPDK
constexpr size_t kFrameBytes = 32;             // of {"/pollux/locks":}, and some

std::map<nfs::LockClient, nfs::ClientLocks> Clients(uint32_t clients, const std::string& name) {
  std::map<nfs::LockClient, nfs::ClientLocks> held;
  for (uint32_t i = 0; i < clients; ++i) {
    held.emplace(nfs::LockClient{.address = Gid::FromIpv4(0x0A000000 + i), .name = name},
                 nfs::ClientLocks{.files = 1, .ranges = 2, .awaited = 3, .shares = 4});
  }
  return held;
}

TEST(ListLocksTest, ClientsThatDoNotFitAreCountedInTheLastLine) {
  constexpr uint32_t kClients = 600;
  for (const std::string& name : {std::string("c"), std::string(200, '"')}) {
    const pollux::Stats stats = ListLocks(Clients(kClients, name));
    EXPECT_LT(kFrameBytes + nlohmann::json(stats.lines()).dump().size(), kTelemetryBytes);
    EXPECT_LE(stats.lines().size(), pollux::Stats::kMaxItems);
    ASSERT_GT(stats.lines().size(), 1u);
    const uint64_t more = kClients - (stats.lines().size() - 1);
    const auto last = ParseLocks(stats.lines().back());
    ASSERT_TRUE(last.ok()) << last.status();
    EXPECT_EQ((*last)["address"].get<std::string>(), "-");
    EXPECT_EQ((*last)["name"].get<std::string>(),
              "(" + std::to_string(more) + " more clients, not listed)");
    EXPECT_EQ((*last)["files"].get<uint64_t>(), more);
    EXPECT_EQ((*last)["ranges"].get<uint64_t>(), 2 * more);
    EXPECT_EQ((*last)["awaited"].get<uint64_t>(), 3 * more);
    EXPECT_EQ((*last)["shares"].get<uint64_t>(), 4 * more);
  }
}

TEST(ListLocksTest, AFewClientsAreAllListed) {
  EXPECT_EQ(ListLocks(Clients(2, "c")).lines(),
            (std::vector<std::string>{"10.0.0.0 1 2 3 4 c", "10.0.0.1 1 2 3 4 c"}));
  EXPECT_EQ(ListLocks({}).shape(), pollux::Stats::Shape::kLines);
}

}  // namespace
}  // namespace pollux::tools
