#include "compat/process/dreq_records.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "compat/process/dreq_file.h"
#include "compat/process/forked_child.h"

namespace pollux::compat {
namespace {

class DreqRecordsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = DreqRecords::Create();
    ASSERT_TRUE(made.ok()) << made.status();
    records = *std::move(made);
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
    sending = Fd(ends[0]);
    receiving = Fd(ends[1]);
  }
  uint32_t Keep(const std::string& text) {
    return records->Keep({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  // What a socket was given since the last call.
  std::vector<std::string> Sent() const {
    std::vector<std::string> sent;
    std::array<char, DreqFile::kMaxFrameBytes + 1> frame;
    for (ssize_t bytes; (bytes = recv(receiving.get(), frame.data(), frame.size(), 0)) >= 0;) {
      sent.emplace_back(frame.data(), static_cast<size_t>(bytes));
    }
    return sent;
  }

  std::unique_ptr<DreqRecords> records;
  Fd sending, receiving;
};

TEST_F(DreqRecordsTest, OnlyStoredRecordsAreSent) {
  EXPECT_EQ(SendDreqs(records->file(), sending.get()), 0);
  const uint32_t one = Keep("one");
  Keep("two");
  records->Forget(one);
  EXPECT_EQ(SendDreqs(records->file(), sending.get()), 1);
  EXPECT_EQ(Sent(), std::vector<std::string>{"two"});
  EXPECT_EQ(Keep("three"), one) << "in the first one's place";
  EXPECT_EQ(SendDreqs(records->file(), sending.get()), 2);
  EXPECT_EQ(Sent(), (std::vector<std::string>{"three", "two"}));
}

TEST_F(DreqRecordsTest, DreqsOfADeadProcessAreRepeated) {
  SendDreqsAtLast(records->file(), sending.get());
  EXPECT_EQ(Sent().size(), 0u);
  Keep("one");
  SendDreqsAtLast(records->file(), sending.get());
  EXPECT_EQ(Sent(), std::vector<std::string>(kDreqRounds, "one"));
}

TEST_F(DreqRecordsTest, RecordsAndFrameBytesAreBounded) {
  const std::vector<uint8_t> longest(DreqFile::kMaxFrameBytes);
  EXPECT_EQ(records->Keep({}), DreqRecords::kNowhere);
  EXPECT_EQ(records->Keep(std::vector<uint8_t>(DreqFile::kMaxFrameBytes + 1)),
            DreqRecords::kNowhere);
  for (uint32_t i = 0; i < DreqFile::kRecords; ++i) ASSERT_EQ(records->Keep(longest), i);
  EXPECT_EQ(records->Keep(longest), DreqRecords::kNowhere);
  records->Forget(7);
  EXPECT_EQ(records->Keep(longest), 7u);
}

TEST_F(DreqRecordsTest, AForkedChildCannotChangeRecords) {
  const uint32_t one = Keep("one");
  const pid_t child = fork();
  if (child == 0) {
    ForkedChild::Become();
    records->Forget(one);
    _exit(Keep("two") == DreqRecords::kNowhere ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  SendDreqs(records->file(), sending.get());
  EXPECT_EQ(Sent(), std::vector<std::string>{"one"});
}

TEST(DreqFileTest, CorruptedRecordsAreNotSent) {
  const auto file = std::make_unique<DreqFile>();
  file->used = UINT32_MAX;
  file->records[3].bytes = DreqFile::kMaxFrameBytes + 1;
  EXPECT_EQ(SendDreqs(*file, -1), 0);
}

}  // namespace
}  // namespace pollux::compat
