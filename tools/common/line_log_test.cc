#include "tools/common/line_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace pollux::tools {
namespace {

class LineLogTest : public testing::Test {
 protected:
  LineLogTest() {
    EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    log.emplace(ends_[1]);
  }
  ~LineLogTest() override {
    log.reset();
    CloseWriter();
    close(ends_[0]);
  }
  void CloseWriter() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  // `bytes` of what was written, at most.
  std::string Read(size_t bytes) const {
    std::string text(bytes, 0);
    size_t at = 0;
    while (at < bytes) {
      const ssize_t size = read(ends_[0], text.data() + at, bytes - at);
      if (size <= 0) break;
      at += static_cast<size_t>(size);
    }
    text.resize(at);
    return text;
  }
  // Until the writer's end is closed.
  std::string ReadAll() const { return Read(size_t{8} << 20); }

  std::optional<LineLog> log;

 private:
  std::array<int, 2> ends_{};
};

TEST_F(LineLogTest, LinesAreWrittenInOrder) {
  log->Write(LogLevel::kInfo, "test", "one");
  log->Write(LogLevel::kInfo, "test", "two\nthree");
  EXPECT_EQ(Read(14), "one\ntwo\nthree\n");
}

TEST_F(LineLogTest, FlushWritesWaitingLines) {
  log->Flush();
  log->Write(LogLevel::kInfo, "test", "one");
  log->Flush();
  CloseWriter();
  EXPECT_EQ(ReadAll(), "one\n");
}

TEST_F(LineLogTest, DestructionWritesWaitingLines) {
  log->Write(LogLevel::kInfo, "test", "one");
  log.reset();
  EXPECT_EQ(Read(4), "one\n");
}

// More than a pipe holds: nobody who writes waits, and what there is no room for is counted.
TEST_F(LineLogTest, LinesThatDoNotFitAreCounted) {
  // What the pipe takes, what the thread has in hand, what waits, and more.
  constexpr size_t kLines = 4 * LineLog::kMaxWaiting;
  const std::string line(4095, '.');
  for (size_t i = 0; i < kLines; ++i) log->Write(LogLevel::kInfo, "test", line);
  std::string text;
  std::thread reader([&] { text = ReadAll(); });
  log.reset();
  CloseWriter();
  reader.join();
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const auto written = static_cast<size_t>(std::ranges::count(lines, line));
  EXPECT_GE(written, LineLog::kMaxWaiting);
  ASSERT_LT(written, kLines);
  // Told of whenever what waited is written, which may be more than once.
  size_t left_out = 0;
  for (const std::string& told : lines) {
    constexpr absl::string_view kTold = " more lines were left out";
    uint64_t count = 0;
    if (told == line) continue;
    ASSERT_TRUE(absl::SimpleAtoi(absl::StripSuffix(told, kTold), &count)) << told;
    left_out += count;
  }
  EXPECT_EQ(written + left_out, kLines);
}

}  // namespace
}  // namespace pollux::tools
