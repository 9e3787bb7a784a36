#include "tests/bench/history_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace pollux::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kFirst[] =
    R"({"date": "2026-01-02", "commit": "abc",
"machine": {"processor": "P", "cpus": 2, "kernel": "6.1"}, "passes": 5,
"instructions": {"SEND": 2000, "NULL": 400},
"wires": {"net_ring": {"core_to_core_ns": 46.2, "cores": "near", "ratios": {
"rate": {"median": 0.6, "at_least": 0.5}, "time": {"median": 2.0, "at_most": 1.0},
"none": {"median": 3}}}}})";
constexpr char kSecond[] =
    R"({"date": "2026-01-03", "commit": "def",
"machine": {"processor": "P", "cpus": 2, "kernel": "6.1"}, "passes": 5,
"instructions": {"SEND": 1000, "turn": 300},
"wires": {"net_ring": {"core_to_core_ns": null, "cores": "near", "ratios": {
"rate": {"median": 0.25, "at_least": 0.5}}}}})";

std::string Lines(std::string first, std::string second) {
  for (std::string* one : {&first, &second}) {
    for (char& letter : *one) letter = letter == '\n' ? ' ' : letter;
  }
  return first + "\n" + second + "\n";
}

TEST(HistoryPageTest, ShowsEachPathAndEachRatioRunByRun) {
  const auto page = HistoryPage(Lines(kFirst, kSecond));
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->sections.size(), 2u);
  const tools::Chart& paths = page->sections[0].charts.at(0);
  ASSERT_EQ(paths.series.size(), 3u);
  EXPECT_EQ(paths.series[0].name, "SEND");
  EXPECT_THAT(paths.series[0].points, ElementsAre(Pair(1, 1.0), Pair(2, 0.5)));
  EXPECT_THAT(paths.series[2].points, ElementsAre(Pair(2, 1.0)));
  const tools::PageTable& table = page->sections[0].tables.at(1);
  EXPECT_THAT(table.head, ElementsAre("path", "1", "2"));
  EXPECT_THAT(table.rows,
              ElementsAre(ElementsAre("NULL", "400", ""), ElementsAre("SEND", "2000", "1000"),
                          ElementsAre("turn", "", "300")));
  // Ratios without a target are left out; twice the greatest allowed value is half as good.
  const tools::Chart& ratios = page->sections[1].charts.at(0);
  ASSERT_EQ(ratios.series.size(), 2u);
  EXPECT_THAT(ratios.series[0].points, ElementsAre(Pair(1, 1.2), Pair(2, 0.5)));
  EXPECT_THAT(ratios.series[1].points, ElementsAre(Pair(1, 0.5)));
}

TEST(HistoryPageTest, NamesTheLineThatIsNotUnderstood) {
  EXPECT_THAT(HistoryPage("").status().message(), HasSubstr("no run"));
  for (const char* second : {"{", "{}", "3", R"({"date": "2026-01-03"})"}) {
    EXPECT_THAT(HistoryPage(Lines(kFirst, second)).status().message(), HasSubstr("line 2"))
        << second;
  }
}

}  // namespace
}  // namespace pollux::bench
