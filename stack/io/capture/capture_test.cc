#include "stack/io/capture/capture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/io/capture/capture_file.h"
#include "stack/io/eal_for_test.h"

namespace pollux::io {
namespace {

constexpr uint64_t kEpochNs = 1'700'000'000'000'000'000;
constexpr MacAddress kMac = {2, 0, 0, 0, 0, 1};

class RecordingLink : public Link {
 public:
  ~RecordingLink() override {
    for (rte_mbuf* frame : arriving) rte_pktmbuf_free(frame);
  }
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
    uint16_t n = 0;
    while (n < capacity && !arriving.empty()) {
      frames[n++] = arriving.front();
      arriving.pop_front();
    }
    return n;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    uint16_t n = 0;
    while (n < count && takes > 0) {
      rte_pktmbuf_free(frames[n++]);
      --takes;
    }
    return n;
  }
  std::deque<rte_mbuf*> arriving;
  size_t takes = SIZE_MAX;
};

std::vector<uint8_t> Bytes(size_t size, uint8_t first) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(first + i);
  return bytes;
}

struct Seen {
  std::vector<uint8_t> bytes;
  uint64_t time_ns;
};

// As libpcap reads it.
std::vector<Seen> ReadBack(const std::string& path) {
  std::vector<Seen> all;
  char error[PCAP_ERRBUF_SIZE];
  pcap_t* file =
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error);
  if (file == nullptr) {
    ADD_FAILURE() << error;
    return all;
  }
  EXPECT_EQ(pcap_datalink(file), DLT_EN10MB);
  pcap_pkthdr* header;
  const u_char* data;
  int result;
  while ((result = pcap_next_ex(file, &header, &data)) == 1) {
    EXPECT_EQ(header->caplen, header->len);
    all.push_back({.bytes = {data, data + header->caplen},
                   .time_ns = static_cast<uint64_t>(header->ts.tv_sec) * 1'000'000'000 +
                              static_cast<uint64_t>(header->ts.tv_usec)});
  }
  EXPECT_EQ(result, PCAP_ERROR_BREAK) << pcap_geterr(file);
  pcap_close(file);
  return all;
}

struct RawBlock {
  uint32_t type;
  std::vector<uint8_t> body;
};

// What libpcap does not tell: the blocks themselves.
std::vector<RawBlock> Blocks(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<RawBlock> blocks;
  for (size_t at = 0; at + 12 <= all.size();) {
    uint32_t type, length, again;
    std::memcpy(&type, &all[at], 4);
    std::memcpy(&length, &all[at + 4], 4);
    if (length % 4 != 0 || length < 12 || at + length > all.size()) {
      ADD_FAILURE() << "a block of " << length << " bytes at " << at;
      break;
    }
    std::memcpy(&again, &all[at + length - 4], 4);
    EXPECT_EQ(again, length);
    blocks.push_back({type,
                      {all.begin() + static_cast<ptrdiff_t>(at + 8),
                       all.begin() + static_cast<ptrdiff_t>(at + length - 4)}});
    at += length;
  }
  return blocks;
}

// The last of a packet block's options but one is epb_flags; the end of options follows.
uint32_t FlagsOf(const RawBlock& packet) {
  uint32_t flags;
  std::memcpy(&flags, packet.body.data() + packet.body.size() - 8, 4);
  return flags;
}

class CaptureTest : public testing::Test {
 protected:
  void SetUp() override { InitEalForTest(); }
  void TearDown() override { EXPECT_EQ(FramesInUse(), 0u); }

  static std::unique_ptr<CaptureFile> Open(const std::string& path) {
    auto file = CaptureFile::Open(path, [] { return kEpochNs; });
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : nullptr;
  }
  static void Receive(Capture& capture, uint64_t now_ns, int count) {
    rte_mbuf* frames[CaptureRing::kMaxStaged];
    ASSERT_EQ(capture.Receive(frames, CaptureRing::kMaxStaged, now_ns), count);
    for (int i = 0; i < count; ++i) rte_pktmbuf_free(frames[i]);
  }

  const std::string path_ = testing::TempDir() + "/capture.pcapng";
  RecordingLink link_;
};

TEST_F(CaptureTest, BothDirectionsAreCapturedWithTimesAndNames) {
  auto file = Open(path_);
  Capture capture(&link_, file->AddInterface("net_x0", kMac));
  for (uint8_t i = 0; i < 3; ++i) link_.arriving.push_back(FrameForTest(Bytes(61 + i, i)));
  Receive(capture, 1, 3);
  rte_mbuf* sent = FrameForTest(Bytes(4334, 9));
  EXPECT_EQ(capture.Send(&sent, 1, 2), 1);
  ASSERT_TRUE(file->Close().ok());

  const std::vector<Seen> seen = ReadBack(path_);
  ASSERT_EQ(seen.size(), 4u);
  for (uint8_t i = 0; i < 3; ++i) {
    EXPECT_EQ(seen[i].bytes, Bytes(61 + i, i));
    EXPECT_EQ(seen[i].time_ns, kEpochNs + 1);
  }
  EXPECT_EQ(seen[3].bytes, Bytes(4334, 9));
  EXPECT_EQ(seen[3].time_ns, kEpochNs + 2);

  const std::vector<RawBlock> blocks = Blocks(path_);
  ASSERT_EQ(blocks.size(), 1u + 1 + 4 + 1);
  EXPECT_EQ(blocks[0].type, 0x0A0D0D0Au);
  EXPECT_EQ(blocks[1].type, 1u);
  const std::string described(blocks[1].body.begin(), blocks[1].body.end());
  EXPECT_NE(described.find("net_x0"), std::string::npos);
  EXPECT_EQ(blocks[2].type, 6u);
  EXPECT_EQ(FlagsOf(blocks[2]), 1u);  // inbound
  EXPECT_EQ(FlagsOf(blocks[5]), 2u);  // outbound
  EXPECT_EQ(blocks[6].type, 5u);
}

TEST_F(CaptureTest, RefusedFramesAreCapturedWhenTheLinkTakesThem) {
  auto file = Open(path_);
  Capture capture(&link_, file->AddInterface("net_x0", kMac));
  constexpr uint16_t kFrames = 70;  // three bursts
  std::vector<rte_mbuf*> frames;
  for (uint8_t i = 0; i < kFrames; ++i) frames.push_back(FrameForTest(Bytes(60, i)));
  link_.takes = 40;
  ASSERT_EQ(capture.Send(frames.data(), kFrames, 1), 40);
  link_.takes = 0;
  ASSERT_EQ(capture.Send(frames.data() + 40, kFrames - 40, 2), 0);
  link_.takes = 30;
  ASSERT_EQ(capture.Send(frames.data() + 40, kFrames - 40, 3), 30);
  ASSERT_TRUE(file->Close().ok());
  const std::vector<Seen> seen = ReadBack(path_);
  ASSERT_EQ(seen.size(), size_t{kFrames});
  for (uint8_t i = 0; i < kFrames; ++i) {
    EXPECT_EQ(seen[i].bytes, Bytes(60, i));
    EXPECT_EQ(seen[i].time_ns, kEpochNs + (i < 40 ? 1 : 3));
  }
}

TEST_F(CaptureTest, ASegmentedFrameIsCapturedWhole) {
  auto file = Open(path_);
  Capture capture(&link_, file->AddInterface("net_x0", kMac));
  rte_mbuf* frame = FrameForTest(Bytes(100, 0));
  ASSERT_EQ(rte_pktmbuf_chain(frame, FrameForTest(Bytes(33, 100))), 0);
  EXPECT_EQ(capture.Send(&frame, 1, 1), 1);
  ASSERT_TRUE(file->Close().ok());
  const std::vector<Seen> seen = ReadBack(path_);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].bytes, Bytes(133, 0));
}

TEST_F(CaptureTest, TwoPortsShareOneFile) {
  auto file = Open(path_);
  Capture one(&link_, file->AddInterface("net_x0", kMac));
  Capture other(&link_, file->AddInterface("net_x1", kMac));
  rte_mbuf* frame = FrameForTest(Bytes(60, 1));
  EXPECT_EQ(one.Send(&frame, 1, 1), 1);
  frame = FrameForTest(Bytes(60, 2));
  EXPECT_EQ(other.Send(&frame, 1, 2), 1);
  ASSERT_TRUE(file->Close().ok());
  std::vector<uint32_t> interfaces;
  for (const RawBlock& block : Blocks(path_)) {
    if (block.type != 6) continue;
    uint32_t interface;
    std::memcpy(&interface, block.body.data(), 4);
    interfaces.push_back(interface);
  }
  EXPECT_EQ(interfaces, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(ReadBack(path_).size(), 2u);
}

// Sets the epoch and waits until the writer uses it for all frames that are sent from now on.
class EpochForTest {
 public:
  uint64_t operator()() {
    ++calls_;
    return epoch_ns_;
  }
  void Set(uint64_t epoch_ns) {
    epoch_ns_ = epoch_ns;
    AwaitRound();
  }
  // Waits until a round of the writer that began after this call has ended: two calls each.
  void AwaitRound() {
    for (const uint64_t before = calls_; calls_ < before + 4;) usleep(1'000);
  }

 private:
  std::atomic<uint64_t> epoch_ns_{kEpochNs};
  std::atomic<uint64_t> calls_{0};
};

TEST_F(CaptureTest, TimesFollowTheEpoch) {
  constexpr uint64_t kSecond = 1'000'000'000;
  EpochForTest epoch;
  auto file = CaptureFile::Open(path_, [&epoch] { return epoch(); });
  ASSERT_TRUE(file.ok()) << file.status();
  Capture capture(&link_, (*file)->AddInterface("net_x0", kMac));
  const auto send = [&](uint64_t now_ns) {
    rte_mbuf* frame = FrameForTest(Bytes(60, 1));
    EXPECT_EQ(capture.Send(&frame, 1, now_ns), 1);
    epoch.AwaitRound();
  };
  send(1'000);
  epoch.Set(kEpochNs + 5 * kSecond);
  send(2'000);
  // A correction moves no frame before an earlier one; a step of the clock does.
  epoch.Set(kEpochNs + 5 * kSecond - 3'000);
  send(3'000);
  send(8'000);
  epoch.Set(kEpochNs + 5 * kSecond - 150'000'000);  // after a write of 60 s
  send(9'000);
  epoch.Set(kEpochNs);
  send(10'000);
  ASSERT_TRUE((*file)->Close().ok());
  std::vector<uint64_t> times;
  for (const Seen& one : ReadBack(path_)) times.push_back(one.time_ns - kEpochNs);
  EXPECT_EQ(times, (std::vector<uint64_t>{1'000, 5 * kSecond + 2'000, 5 * kSecond + 2'000,
                                          5 * kSecond + 5'000, 5 * kSecond + 5'000, 10'000}));
}

TEST_F(CaptureTest, FramesDoNotMoveIfReadingTheEpochIsInterrupted) {
  std::promise<void> captured;
  auto file = CaptureFile::Open(
      path_,
      [interrupted = true]() mutable { return std::exchange(interrupted, false) ? 0 : kEpochNs; },
      [&captured](std::function<void()> run) {
        return std::thread([&captured, run = std::move(run)] {
          captured.get_future().wait();
          run();
        });
      });
  ASSERT_TRUE(file.ok()) << file.status();
  Capture capture(&link_, (*file)->AddInterface("net_x0", kMac));
  rte_mbuf* frame = FrameForTest(Bytes(60, 1));
  EXPECT_EQ(capture.Send(&frame, 1, 1), 1);
  captured.set_value();
  ASSERT_TRUE((*file)->Close().ok());
  const std::vector<Seen> seen = ReadBack(path_);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].time_ns, kEpochNs + 1);
}

TEST_F(CaptureTest, FullDiskIsReported) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  auto file = Open("/dev/full");
  Capture capture(&link_, file->AddInterface("net_x0", kMac));
  rte_mbuf* frame = FrameForTest(Bytes(60, 1));
  EXPECT_EQ(capture.Send(&frame, 1, 1), 1);
  const absl::Status status = file->Close();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("/dev/full"), std::string::npos) << status;
  EXPECT_NE(status.message().find("1 frames"), std::string::npos) << status;
  EXPECT_EQ(file->Close(), status);
}

TEST_F(CaptureTest, AFileThatAnotherProcessWritesIsLeftToIt) {
  const std::string content = "what another process has written";
  std::ofstream(path_) << content;
  int ready[2], end[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(end, O_CLOEXEC), 0);
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    close(end[1]);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    const int file = open(path_.c_str(), O_WRONLY);
    char byte = 0;
    if (fcntl(file, F_SETLK, &lock) != 0 || write(ready[1], &byte, 1) != 1) _exit(1);
    (void)!read(end[0], &byte, 1);
    _exit(0);
  }
  char byte;
  close(ready[1]);
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  auto file = Open(path_);
  const std::string own = absl::StrCat(path_, ".", getpid());
  EXPECT_EQ(file->path(), own);
  Capture capture(&link_, file->AddInterface("net_x0", kMac));
  rte_mbuf* frame = FrameForTest(Bytes(60, 1));
  EXPECT_EQ(capture.Send(&frame, 1, 1), 1);
  EXPECT_TRUE(file->Close().ok());
  EXPECT_EQ(ReadBack(own).size(), 1u);
  std::filesystem::remove(own);
  EXPECT_EQ(std::filesystem::file_size(path_), content.size());

  close(end[1]);
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
  close(ready[0]);
  close(end[0]);
  file = Open(path_);
  EXPECT_EQ(file->path(), path_);
  EXPECT_TRUE(file->Close().ok());
  EXPECT_EQ(Blocks(path_).size(), 1u) << "the earlier content is still there";
}

TEST_F(CaptureTest, AFileSizeLimitIsReported) {
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  const rlimit limit{.rlim_cur = 4096, .rlim_max = former.rlim_max};
  auto file = Open(path_);
  Capture capture(&link_, file->AddInterface("net_x0", kMac));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  rte_mbuf* frame = FrameForTest(Bytes(4334, 1));
  const uint16_t sent = capture.Send(&frame, 1, 1);
  const absl::Status status = file->Close();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  EXPECT_EQ(sent, 1);
  EXPECT_NE(status.message().find("File too large"), std::string::npos) << status;
}

// A capture into a FIFO that the test reads.
class CaptureIntoPipeTest : public CaptureTest {
 protected:
  void SetUp() override {
    CaptureTest::SetUp();
    std::filesystem::remove(pipe_);
    ASSERT_EQ(mkfifo(pipe_.c_str(), 0600), 0);
    reader_ = open(pipe_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader_, 0);
    file_ = Open(pipe_);
    ASSERT_NE(file_, nullptr);
    capture_.emplace(&link_, file_->AddInterface("net_x0", kMac));
  }
  void TearDown() override {
    CloseReader();
    file_.reset();
    std::filesystem::remove(pipe_);
    CaptureTest::TearDown();
  }
  void CloseReader() {
    if (reader_ >= 0) close(reader_);
    reader_ = -1;
  }
  void Send(int frames) {
    for (int i = 0; i < frames; ++i) {
      rte_mbuf* frame = FrameForTest(Bytes(4000, 1));
      ASSERT_EQ(capture_->Send(&frame, 1, 1), 1);
    }
  }

  const std::string pipe_ = testing::TempDir() + "/capture.pipe";
  int reader_ = -1;
  std::unique_ptr<CaptureFile> file_;
  std::optional<Capture> capture_;
};

TEST_F(CaptureIntoPipeTest, AReaderThatHasClosedItIsReported) {
  CloseReader();
  Send(1);
  const absl::Status status = file_->Close();
  EXPECT_NE(status.message().find("Broken pipe"), std::string::npos) << status;
  EXPECT_NE(status.message().find("1 frames"), std::string::npos) << status;
}

TEST_F(CaptureIntoPipeTest, TheEndDoesNotWaitForAReaderThatTakesNothing) {
  Send(100);  // more than a pipe holds
  const absl::Status status = file_->Close();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(CaptureTest, AFileThatCannotBeCreatedIsAnError) {
  const absl::Status status =
      CaptureFile::Open("/nonexistent/x.pcapng", [] { return kEpochNs; }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/nonexistent/x.pcapng"), std::string::npos) << status;
}

class CaptureRingTest : public CaptureTest {
 protected:
  void Put(uint8_t number, size_t size = 60) {
    rte_mbuf* frame = FrameForTest(Bytes(size, number));
    ring_.Stage(frame, pcapng::Direction::kInbound, number);
    ring_.Publish(1);
    rte_pktmbuf_free(frame);
  }
  // The number of the oldest, taken out; -1: none.
  int Take() {
    const CaptureRing::Record* record = ring_.Front();
    if (record == nullptr) return -1;
    const std::vector<uint8_t> bytes(record->bytes(), record->bytes() + record->captured);
    const auto number = static_cast<uint8_t>(record->time_ns);
    EXPECT_EQ(bytes, Bytes(record->length, number));
    ring_.Pop();
    return number;
  }

  CaptureRing ring_{1024};  // eight records of a frame of 60 to 96 bytes
};

TEST_F(CaptureRingTest, DropsAndCountsWhenFull) {
  for (uint8_t i = 0; i < 8; ++i) Put(i, 96);
  EXPECT_EQ(ring_.dropped(), 0u);
  Put(8, 96);
  EXPECT_EQ(ring_.dropped(), 1u);
  EXPECT_EQ(ring_.seen(), 9u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Take(), i);
  EXPECT_EQ(Take(), -1);
  Put(9, 96);
  EXPECT_EQ(Take(), 9);
}

TEST_F(CaptureRingTest, RecordsOfAnySizeWrapAround) {
  int next = 0;
  for (int i = 0; i < 200; ++i) {
    Put(static_cast<uint8_t>(i), static_cast<size_t>(14 + i * 37 % 230));
    if (i % 2 == 1) {
      for (int k = 0; k < 2; ++k) EXPECT_EQ(Take(), static_cast<uint8_t>(next++));
    }
  }
  EXPECT_EQ(ring_.dropped(), 0u);
}

TEST_F(CaptureRingTest, UnpublishedRecordsAreDiscarded) {
  rte_mbuf* frame = FrameForTest(Bytes(60, 1));
  ring_.Stage(frame, pcapng::Direction::kOutbound, 1);
  EXPECT_EQ(ring_.Front(), nullptr);
  ring_.Publish(0);
  EXPECT_EQ(ring_.Front(), nullptr);
  EXPECT_EQ(ring_.seen(), 0u);
  rte_pktmbuf_free(frame);
  Put(2);
  EXPECT_EQ(Take(), 2);
}

}  // namespace
}  // namespace pollux::io
