#include "tools/common/line_log.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

// What cannot be written is lost, as with any other writer of standard error.
void WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t size = write(fd, text.data() + done, text.size() - done);
    if (size < 0 && errno != EINTR) return;
    if (size > 0) done += static_cast<size_t>(size);
  }
}

}  // namespace

LineLog::LineLog(int fd) : fd_(fd), thread_([this] { Work(); }) {}

LineLog::~LineLog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void LineLog::Write(LogLevel level, std::string_view component, std::string_view message) {
  std::string lines = FormatLog(ProcessLogStyle(), level, component, message);
  const std::lock_guard lock(mutex_);
  if (waiting_.size() == kMaxWaiting) {
    ++left_out_;
    return;
  }
  waiting_.push_back(std::move(lines));
  changed_.notify_one();
}

void LineLog::Flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return waiting_.empty() && !writing_; });
}

void LineLog::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::vector<std::string> lines = std::exchange(waiting_, {});
    const uint64_t left_out = std::exchange(left_out_, 0);
    writing_ = true;
    lock.unlock();
    for (const std::string& line : lines) WriteAll(fd_, line);
    if (left_out > 0) {
      WriteAll(fd_, FormatLog(ProcessLogStyle(), LogLevel::kWarning, "log",
                              absl::StrCat(left_out, " more lines were left out")));
    }
    lock.lock();
    writing_ = false;
    idle_.notify_all();
  }
}

}  // namespace pollux::tools
