#include "stack/base/report.h"

#include <gtest/gtest.h>

#include <string>

namespace pollux {
namespace {

TEST(ReportTest, FieldsInOrder) {
  Report report;
  report.Set("name", std::string("wire"));
  report.Count("sent_pkts", 3);
  report.Count("sent_pkts", 4);
  report.Set("name", std::string("other"));
  ASSERT_EQ(report.fields().size(), 2u);
  EXPECT_EQ(report.fields()[0], Report::Field("name", std::string("other")));
  EXPECT_EQ(report.fields()[1], Report::Field("sent_pkts", uint64_t{7}));
}

TEST(ReportTest, Bounds) {
  Report report;
  for (size_t i = 0; i <= Report::kMaxFields; ++i) report.Count(std::to_string(i), 1);
  EXPECT_EQ(report.fields().size(), Report::kMaxFields);
  report.Count("0", 1);
  EXPECT_EQ(std::get<uint64_t>(report.fields()[0].second), 2u) << "known ones go on";
  for (size_t i = 0; i < Report::kMaxItems; ++i) {
    EXPECT_TRUE(report.AddNumber(i));
    EXPECT_TRUE(report.AddLine("line"));
  }
  EXPECT_FALSE(report.AddNumber(1));
  EXPECT_FALSE(report.AddLine("line"));
  EXPECT_EQ(report.numbers().size(), Report::kMaxItems);
  EXPECT_EQ(report.lines().size(), Report::kMaxItems);
}

TEST(ReportTest, LongTextsAreCut) {
  Report report;
  const std::string at_limit(Report::kMaxText, 'a');
  report.Set(at_limit, at_limit);
  report.Set(at_limit + "b", at_limit + "b");
  ASSERT_EQ(report.fields().size(), 1u) << "the same name once cut";
  EXPECT_EQ(report.fields()[0], Report::Field(at_limit, at_limit));
  report.AddLine(at_limit + "b");
  EXPECT_EQ(report.lines()[0], at_limit);
}

}  // namespace
}  // namespace pollux
