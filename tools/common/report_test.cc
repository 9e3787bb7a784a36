#include "tools/common/report.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

#include "tools/common/interrupt.h"
#include "tools/common/options.h"

namespace pollux::tools {
namespace {

TEST(ReportTest, ValuesAreFormattedWithUnits) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(12345678), "12,345,678");
  EXPECT_EQ(Bytes(10'239), "10239 B");
  EXPECT_EQ(Bytes(10'240), "10.0 KiB");
  EXPECT_EQ(Rate(1.5e9), "1.500 GB/s");
  EXPECT_EQ(Microseconds(1'234), "1.23 us");
}

TEST(ReportTest, TableAligns) {
  EXPECT_EQ(Table({{"a", "1"}, {"long", "2"}}), "  a     1\n  long  2\n");
}

TEST(ReportTest, CongestionCountersAreAddedToJson) {
  transport::Counters counters;
  counters.rp_cnp_handled = 1;
  counters.rp_cnp_ignored = 2;
  counters.np_cnp_sent = 3;
  counters.np_ecn_marked_roce_packets = 4;
  nlohmann::ordered_json json;
  AddCongestion(counters, &json);
  EXPECT_EQ(json.dump(), R"({"rp_cnp_handled":1,"rp_cnp_ignored":2,"np_cnp_sent":3,)"
                         R"("np_ecn_marked_roce_packets":4})");
}

TEST(ReportTest, ShellQuotedIsOneShellWord) {
  EXPECT_EQ(ShellQuoted("192.0.2.1:/srv/a-b_c"), "192.0.2.1:/srv/a-b_c");
  EXPECT_EQ(ShellQuoted("/srv/a b"), "'/srv/a b'");
  EXPECT_EQ(ShellQuoted("[2001:db8::1]:/srv"), "'[2001:db8::1]:/srv'");
  EXPECT_EQ(ShellQuoted("it's $HOME; `x`"), "'it'\\''s $HOME; `x`'");
  EXPECT_EQ(ShellQuoted("/srv/\xC3\xA4"), "'/srv/\xC3\xA4'");
  EXPECT_EQ(ShellQuoted(""), "''");
}

TEST(ReportTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(ReplaceInvalidUtf8("n\xC3\xA4m\n\"'"), "n\xC3\xA4m\n\"'");
  EXPECT_EQ(ReplaceInvalidUtf8("a\xFFz"), "a\xEF\xBF\xBDz");
}

TEST(ReportTest, ASignalThatInterruptsEndsAWriteToAFullPipe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto interrupt = [] {
    CatchInterrupts();
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    dup2(ends[1], STDOUT_FILENO);
    const pthread_t writer = pthread_self();
    std::thread other([&] {
      // Earlier output may occupy a page of its own, so a full pipe can hold fewer bytes.
      for (int bytes = 0; bytes < fcntl(ends[0], F_GETPIPE_SZ) / 2; usleep(1000)) {
        ioctl(ends[0], FIONREAD, &bytes);
      }
      pthread_kill(writer, SIGINT);
    });
    const bool cancelled = absl::IsCancelled(PrintOut(std::string(1 << 20, 'x')));
    other.join();
    _exit(cancelled ? 0 : 1);
  };
  EXPECT_EXIT(interrupt(), testing::ExitedWithCode(0), "");
}

TEST(ReportTest, ASignalThatDoesNotInterruptLosesNoOutput) {
  struct sigaction action {
  }, former{};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, &former);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[1]);
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  const pthread_t writer = pthread_self();
  std::string arrived;
  std::thread reader([&] {
    for (int i = 0; i < 10; ++i) {
      usleep(10'000);
      pthread_kill(writer, SIGUSR1);
    }
    std::string part(1 << 16, '\0');
    ssize_t size = 0;
    while ((size = read(ends[0], part.data(), part.size())) > 0) {
      arrived.append(part, 0, static_cast<size_t>(size));
    }
  });
  const absl::Status status = PrintOut(text);
  dup2(before, STDOUT_FILENO);  // the reader gets the end of the file
  close(before);
  reader.join();
  close(ends[0]);
  sigaction(SIGUSR1, &former, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(arrived.size(), text.size());
}

TEST(ReportTest, UsageErrorsAndFailuresHaveDifferentExitStatuses) {
  EXPECT_EQ(Fail("x", absl::InvalidArgumentError("m")), kExitUsage);
  EXPECT_EQ(Fail("x", absl::UnavailableError("m")), kExitFailure);
}

}  // namespace
}  // namespace pollux::tools
