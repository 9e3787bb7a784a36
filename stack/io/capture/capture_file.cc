#include "stack/io/capture/capture_file.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/io/capture/pcapng.h"

namespace pollux::io {
namespace {

constexpr size_t kWriteBytes = 256u << 10;  // handed to the system at once, about
// How long a frame may lie in its ring on an idle port. The ring holds far more than comes in it.
constexpr std::chrono::milliseconds kInterval(2);
// DPDK rounds the counter's rate, so each correction of the epoch may move times back: by 5 us
// after an interval, by more after a long write. A frame that would then precede the one before it
// gets that one's time. A correction larger than that after a write of 200 s is a step of the
// clock.
constexpr uint64_t kMaxCorrectionNs = 500'000'000;
// How long the end of a capture waits for a pipe whose reader takes nothing.
constexpr int kStalledMs = 1'000;

// Without these signals, the write() that would cause one returns an error.
void BlockSignalsOfWrite() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  sigaddset(&signals, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Opens the file; locks and empties it if it is a regular one. If another process writes a capture
// to it, returns AlreadyExists and leaves it unchanged.
absl::StatusOr<int> OpenAlone(const std::string& path) {
  const std::string name = absl::StrCat("capture ", path);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return absl::ErrnoToStatus(errno, name);
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    // Forked children do not inherit this kind of lock, and the process loses it when it closes any
    // other descriptor of the file. Other errors come from file systems without locks: the file is
    // then used unlocked.
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (fcntl(file, F_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES)) {
      close(file);
      return absl::AlreadyExistsError(absl::StrCat(name, ": another process writes it"));
    }
    if (ftruncate(file, 0) != 0) {
      const int error = errno;
      close(file);
      return absl::ErrnoToStatus(error, name);
    }
  }
  // For Flush(). Not in open(), which must wait for the reader of a FIFO.
  fcntl(file, F_SETFL, O_NONBLOCK);
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureFile>> CaptureFile::Open(const std::string& path,
                                                               EpochNs epoch_ns,
                                                               const StartThread& start) {
  std::string name = path;
  absl::StatusOr<int> file = OpenAlone(name);
  if (absl::IsAlreadyExists(file.status())) {
    absl::StrAppend(&name, ".", getpid());
    file = OpenAlone(name);
  }
  if (!file.ok()) return file.status();
  return std::unique_ptr<CaptureFile>(new CaptureFile(name, *file, std::move(epoch_ns), start));
}

CaptureFile::CaptureFile(std::string path, int file, EpochNs epoch_ns, const StartThread& start)
    : path_(std::move(path)), epoch_ns_(std::move(epoch_ns)), file_(file) {
  buffer_.reserve(kWriteBytes + pcapng::kSnapLength + pcapng::kPacketOverhead);
  pcapng::AppendSection("pollux", &buffer_);
  const auto run = [this] { Run(); };
  thread_ = start ? start(run) : std::thread(run);
}

CaptureFile::~CaptureFile() { (void)Close(); }

CaptureRing* CaptureFile::AddInterface(const std::string& name, const MacAddress& mac) {
  auto interface = std::make_unique<Interface>(
      Interface{.name = name, .mac = mac, .last_time_ns = 0, .ring = nullptr});
  interface->ring = std::make_unique<CaptureRing>();
  CaptureRing* ring = interface->ring.get();
  const std::lock_guard<std::mutex> lock(mutex_);
  interfaces_.push_back(std::move(interface));
  return ring;
}

void CaptureFile::Run() {
  BlockSignalsOfWrite();
  for (bool stopping = false; !stopping;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait_for(lock, kInterval, [this] { return stop_; });
      stopping = stop_;
    }
    DescribeNew();
    while (Drain()) Flush();
    Flush();
  }
  for (uint32_t i = 0; i < known_.size(); ++i) {
    const CaptureRing& ring = *known_[i]->ring;
    pcapng::AppendStatistics(
        {.interface = i, .time_ns = last_time_ns_, .seen = ring.seen(), .dropped = ring.dropped()},
        &buffer_);
  }
  Flush();
}

void CaptureFile::DescribeNew() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = known_.size(); i < interfaces_.size(); ++i) {
    known_.push_back(interfaces_[i].get());
    pcapng::AppendInterface(known_[i]->name, known_[i]->mac, &buffer_);
  }
}

// Fills the buffer, the oldest frame of all rings first. False when nothing is left.
bool CaptureFile::Drain() {
  // The larger of two: one is too small if the thread was interrupted between reading the system's
  // clock and the counter.
  const uint64_t first_ns = epoch_ns_();
  const uint64_t epoch_ns = std::max(first_ns, epoch_ns_());
  while (buffer_.size() < kWriteBytes) {
    const CaptureRing::Record* oldest = nullptr;
    uint32_t from = 0;
    for (uint32_t i = 0; i < known_.size(); ++i) {
      const CaptureRing::Record* record = known_[i]->ring->Front();
      if (record == nullptr || (oldest != nullptr && oldest->time_ns <= record->time_ns)) continue;
      oldest = record;
      from = i;
    }
    if (oldest == nullptr) return false;
    uint64_t time_ns = oldest->time_ns + epoch_ns;
    uint64_t& last_ns = known_[from]->last_time_ns;
    if (time_ns < last_ns && last_ns - time_ns < kMaxCorrectionNs) time_ns = last_ns;
    last_ns = time_ns;
    last_time_ns_ = std::max(last_time_ns_, time_ns);
    pcapng::AppendPacket({.interface = from,
                          .time_ns = time_ns,
                          .direction = oldest->direction,
                          .bytes = oldest->bytes(),
                          .captured = oldest->captured,
                          .length = oldest->length},
                         &buffer_);
    ++frames_in_buffer_;
    known_[from]->ring->Pop();
  }
  return true;
}

bool CaptureFile::IsStopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stop_;
}

// After the first error nothing more is written: a file must not go on after a hole.
void CaptureFile::Flush() {
  size_t written = 0;
  while (error_ == 0 && written < buffer_.size()) {
    const ssize_t n = write(file_, buffer_.data() + written, buffer_.size() - written);
    if (n > 0) {
      written += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      pollfd pipe{.fd = file_, .events = POLLOUT, .revents = 0};
      if (poll(&pipe, 1, kStalledMs) == 0 && IsStopping()) error_ = ETIMEDOUT;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  if (error_ != 0) unwritten_ += frames_in_buffer_;
  frames_in_buffer_ = 0;
  buffer_.clear();
}

absl::Status CaptureFile::Close() {
  if (file_ < 0) return result_;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
  uint64_t dropped = 0;
  for (const Interface* one : known_) dropped += one->ring->dropped();
  // Some file systems tell of a full disk only now.
  if (close(file_) != 0 && error_ == 0) error_ = errno;
  file_ = -1;
  if (error_ != 0) {
    result_ =
        absl::ErrnoToStatus(error_, absl::StrCat("capture ", path_, " is incomplete, at least ",
                                                 unwritten_ + dropped, " frames are missing"));
  } else if (dropped > 0) {
    result_ = absl::DataLossError(absl::StrCat("capture ", path_, " is incomplete, ", dropped,
                                               " frames came faster than they could be written"));
  }
  return result_;
}

}  // namespace pollux::io
