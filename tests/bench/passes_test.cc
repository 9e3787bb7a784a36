#include "tests/bench/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pollux::bench {
namespace {

using ::testing::ElementsAre;

absl::Status RateOf(uint64_t pass, Wire wire, Figures& figures) {
  figures.Record(kCoreToCore, "ns", 70);
  figures.Record("READ 1 MiB", "Gb/s", static_cast<double>(pass));
  figures.Record("WRITE 1 MiB", "Gb/s", wire == Wire::kRing ? 1 : 2);
  return absl::OkStatus();
}

TEST(PassesTest, WiresAlternateAndHaveTheirOwnRatios) {
  std::vector<std::pair<uint64_t, Wire>> order;
  Results results;
  const absl::Status status = RunPasses(
      2, {Wire::kRing, Wire::kMemif},
      [&order](uint64_t pass, Wire wire, Figures& figures) {
        order.emplace_back(pass, wire);
        return RateOf(pass, wire, figures);
      },
      results);
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(order, ElementsAre(std::pair(1, Wire::kRing), std::pair(1, Wire::kMemif),
                                 std::pair(2, Wire::kRing), std::pair(2, Wire::kMemif)));
  const auto sections = results.Sections();
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_THAT(sections[1].figures->ratios.at("1 MiB READ / WRITE").values, ElementsAre(0.5, 1));
}

// A part that fails costs its pass, and none that came to its end before.
TEST(PassesTest, PassesCompletedBeforeAFailureAreKept) {
  Results results;
  const absl::Status status = RunPasses(
      5, {Wire::kRing, Wire::kMemif},
      [](uint64_t pass, Wire wire, Figures& figures) {
        absl::Status of_pass = RateOf(pass, wire, figures);
        if (pass == 3 && wire == Wire::kMemif) of_pass = absl::InternalError("no more memory");
        return of_pass;
      },
      results);
  EXPECT_EQ(status.message(), "no more memory");
  const auto sections = results.Sections();
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].passes, 3u);
  EXPECT_EQ(sections[1].passes, 2u);
  EXPECT_EQ(sections[1].figures->series.at("READ 1 MiB").values.size(), 2u);
}

}  // namespace
}  // namespace pollux::bench
