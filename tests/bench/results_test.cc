#include "tests/bench/results.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace pollux::bench {
namespace {

Figures Pass(std::initializer_list<double> core_to_core_ns, double rate) {
  Figures pass;
  for (const double ns : core_to_core_ns) pass.Record(kCoreToCore, "ns", ns);
  pass.Record("rate", "M/s", rate);
  return pass;
}

TEST(ResultsTest, PassesWithTheSameCoreDistanceAreCombined) {
  Results results;
  for (const double rate : {3.0, 1.0, 2.0}) results.Add(Wire::kRing, Pass({70, 120}, rate));
  const auto sections = results.Sections();
  ASSERT_EQ(sections.size(), 1u);
  EXPECT_EQ(sections[0].name, "net_ring");
  EXPECT_EQ(sections[0].cores, tools::CoreDistance::kNear);
  EXPECT_EQ(sections[0].passes, 3u);
  EXPECT_EQ(sections[0].figures->Median("rate"), 2);
}

TEST(ResultsTest, NearAndFarPassesAreSeparate) {
  Results results;
  results.Add(Wire::kRing, Pass({110, 110}, 4));
  results.Add(Wire::kRing, Pass({520, 510}, 1));
  results.Add(Wire::kRing, Pass({110, 520, 110}, 2));
  results.Add(Wire::kMemif, Pass({520, 520}, 9));
  const auto sections = results.Sections();
  ASSERT_EQ(sections.size(), 4u);
  EXPECT_EQ(sections[0].name, "net_ring, cores near");
  EXPECT_EQ(sections[0].figures->Median("rate"), 4);
  EXPECT_EQ(sections[1].name, "net_ring, cores far");
  EXPECT_EQ(sections[1].figures->Median("rate"), 1);
  EXPECT_EQ(sections[2].name, "net_ring, cores now near, now far");
  EXPECT_EQ(sections[2].figures->Median("rate"), 2);
  EXPECT_EQ(sections[3].name, "net_memif");
  EXPECT_EQ(sections[3].cores, tools::CoreDistance::kFar);
}

TEST(ResultsTest, AnUnmeasuredDistanceIsNotNear) {
  Results results;
  results.Add(Wire::kRing, Pass({}, 3));
  EXPECT_EQ(results.Sections()[0].name, "net_ring");
  EXPECT_EQ(results.Sections()[0].cores, tools::CoreDistance::kUnmeasured);
  results.Add(Wire::kRing, Pass({70}, 5));
  const auto sections = results.Sections();
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].figures->Median("rate"), 5);
  EXPECT_EQ(sections[1].name, "net_ring, cores not measured");
}

TEST(ResultsTest, AFigureMissingInOnePassIsReportedAsMissing) {
  Results results;
  Figures pass = Pass({70}, 1);
  pass.missing["a peer"] = "not installed";
  results.Add(Wire::kRing, pass);
  results.Add(Wire::kRing, Pass({70}, 1));
  EXPECT_EQ(results.Sections()[0].figures->missing.at("a peer"), "not installed");
}

}  // namespace
}  // namespace pollux::bench
