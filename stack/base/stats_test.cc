#include "stack/base/stats.h"

#include <gtest/gtest.h>

#include <string>

namespace pollux {
namespace {

TEST(StatsTest, SetReplacesAndCountAddsInOrderOfFirstUse) {
  Stats stats;
  stats.Set("name", std::string("wire"));
  stats.Count("sent_pkts", 3);
  stats.Count("sent_pkts", 4);
  stats.Set("name", std::string("other"));
  ASSERT_EQ(stats.fields().size(), 2u);
  EXPECT_EQ(stats.fields()[0], Stats::Field("name", std::string("other")));
  EXPECT_EQ(stats.fields()[1], Stats::Field("sent_pkts", uint64_t{7}));
}

TEST(StatsTest, FieldsAndItemsAreBounded) {
  Stats stats;
  for (size_t i = 0; i <= Stats::kMaxFields; ++i) stats.Count(std::to_string(i), 1);
  EXPECT_EQ(stats.fields().size(), Stats::kMaxFields);
  stats.Count("0", 1);
  EXPECT_EQ(std::get<uint64_t>(stats.fields()[0].second), 2u) << "known ones go on";
  for (size_t i = 0; i < Stats::kMaxItems; ++i) {
    EXPECT_TRUE(stats.AddNumber(i));
    EXPECT_TRUE(stats.AddLine("line"));
  }
  EXPECT_FALSE(stats.AddNumber(1));
  EXPECT_FALSE(stats.AddLine("line"));
  EXPECT_EQ(stats.numbers().size(), Stats::kMaxItems);
  EXPECT_EQ(stats.lines().size(), Stats::kMaxItems);
}

TEST(StatsTest, LongTextsAreTruncated) {
  Stats stats;
  const std::string at_limit(Stats::kMaxText, 'a');
  stats.Set(at_limit, at_limit);
  stats.Set(at_limit + "b", at_limit + "b");
  ASSERT_EQ(stats.fields().size(), 1u) << "the same name once cut";
  EXPECT_EQ(stats.fields()[0], Stats::Field(at_limit, at_limit));
  stats.AddLine(at_limit + "b");
  EXPECT_EQ(stats.lines()[0], at_limit);
}

}  // namespace
}  // namespace pollux
