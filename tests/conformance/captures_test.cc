// Every capture passes, and what is counted in it is what tshark counts.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/conformance/report.h"

namespace pollux::conformance {
namespace {

constexpr const char* kDirectory = "tests/conformance/captures/";

struct Expected {
  std::string file;
  std::map<std::string, uint64_t> counts;
};

std::ostream& operator<<(std::ostream& out, const Expected& expected) {
  return out << expected.file;
}

std::vector<Expected> ReadExpected() {
  std::vector<Expected> all;
  std::ifstream in(std::string(kDirectory) + "expected.txt");
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Expected expected;
    words >> expected.file;
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      expected.counts[word.substr(0, equals)] = std::stoull(word.substr(equals + 1));
    }
    all.push_back(std::move(expected));
  }
  return all;
}

std::string CaseName(const testing::TestParamInfo<Expected>& info) {
  std::string name = info.param.file.substr(0, info.param.file.find(".pcap"));
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class CaptureTest : public testing::TestWithParam<Expected> {};

TEST_P(CaptureTest, PassesWithTheCountsOfTshark) {
  const FileReport report = CheckFile(kDirectory + GetParam().file);
  for (const Failure& failure : report.failures) {
    ADD_FAILURE() << "frame " << failure.frame << ": " << failure.reason;
  }
  EXPECT_EQ(KeyedCounts(report.counts), GetParam().counts);
}

INSTANTIATE_TEST_SUITE_P(Linux, CaptureTest, testing::ValuesIn(ReadExpected()), CaseName);

// A capture of the wrong interface is no success.
TEST(CapturesTest, ACaptureWithoutRoceDoesNotPass) {
  FileReport other{.path = "other", .counts = {}, .failures = {}};
  other.counts.frames = 7;
  EXPECT_FALSE(AllPass({other}));
  EXPECT_NE(ToTable({other}).find("no RoCE frame"), std::string::npos);
  FileReport roce = other;
  roce.counts.roce = 1;
  EXPECT_TRUE(AllPass({other, roce}));
  EXPECT_EQ(ToTable({other, roce}).find("FAILED"), std::string::npos);
}

TEST(CapturesTest, EveryCaptureIsListed) { EXPECT_EQ(ReadExpected().size(), 21u); }

}  // namespace
}  // namespace pollux::conformance
