#include "tools/common/log_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace pollux::tools {
namespace {

using ::testing::MatchesRegex;

TEST(LogFormatTest, TextNamesTheComponentOfErrors) {
  EXPECT_EQ(FormatLog({}, LogLevel::kError, "nfsd", "no port"), "pollux nfsd: no port\n");
  EXPECT_EQ(FormatLog({}, LogLevel::kWarning, "nfsd", "no port\n"), "no port\n");
  EXPECT_EQ(FormatLog({}, LogLevel::kInfo, "nfsd", "one\ntwo\n"), "one\ntwo\n");
}

TEST(LogFormatTest, EachLineForJournaldHasItsLevel) {
  const LogStyle style{.journal = true};
  EXPECT_EQ(FormatLog(style, LogLevel::kError, "nfsd", "x"), "<3>pollux nfsd: x\n");
  EXPECT_EQ(FormatLog(style, LogLevel::kWarning, "cm", "one\ntwo"), "<4>one\n<4>two\n");
  EXPECT_EQ(FormatLog(style, LogLevel::kInfo, "nfsd", ""), "<6>\n");
}

TEST(LogFormatTest, JsonIsOneObjectOnOneLine) {
  const std::string line = FormatLog({.json = true}, LogLevel::kWarning, "cm", "\"a\"\n\xFF b\n");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.size(), 4u);
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["component"], "cm");
  EXPECT_EQ(json["message"], "\"a\"\n\xEF\xBF\xBD b");
  EXPECT_THAT(json["time"].get<std::string>(), MatchesRegex("20..-..-..T..:..:..\\.......Z"));
  EXPECT_EQ(FormatLog({.json = true, .journal = true}, LogLevel::kInfo, "cm", "x").substr(0, 4),
            "<6>{");
}

TEST(LogFormatTest, OnlyTheStreamThatSystemdNamesIsTheJournal) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  struct stat status;
  ASSERT_EQ(fstat(ends[1], &status), 0);
  unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(IsJournal(ends[1]));
  const std::string stream = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  setenv("JOURNAL_STREAM", stream.c_str(), 1);
  EXPECT_TRUE(IsJournal(ends[1]));
  setenv("JOURNAL_STREAM", (stream + "0").c_str(), 1);
  EXPECT_FALSE(IsJournal(ends[1]));
  unsetenv("JOURNAL_STREAM");
  for (const int end : ends) close(end);
}

}  // namespace
}  // namespace pollux::tools
