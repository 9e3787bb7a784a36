#include "compat/process/program_threads_exit.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string_view>

#include "absl/strings/numbers.h"

namespace pollux::compat {
namespace {

// As DPDK 22.11 and 24.11 name what they start; what those start has the same name.
constexpr std::string_view kNamesOfDpdk[] = {"eal-intr-thread", "rte_mp_handle",  "telemetry-v1",
                                             "telemetry-v2",    "dpdk-intr",      "dpdk-mp-msg",
                                             "dpdk-telemet-v1", "dpdk-telemet-v2"};

std::array<std::atomic<pid_t>, kMaxOwnThreads> own_threads;

// Nothing here takes memory from operator new, which ends the process where there is none.
class Task {
 public:
  // Of a file in `tasks`.
  Task(int tasks, const char* tid) {
    const int folder = openat(tasks, tid, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    const int file = openat(folder, "stat", O_RDONLY | O_CLOEXEC);
    close(folder);
    if (file < 0) return;
    const ssize_t bytes = read(file, line_.data(), line_.size());
    close(file);
    if (bytes <= 0) return;
    // "TID (NAME) STATE ..."
    const std::string_view line(line_.data(), static_cast<size_t>(bytes));
    const size_t begin = line.find('('), end = line.rfind(')');
    if (begin == line.npos || end == line.npos || end < begin || end + 2 >= line.size()) return;
    name_ = line.substr(begin + 1, end - begin - 1);
    state_ = line[end + 2];
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  bool known() const { return state_ != 0; }
  bool has_ended() const { return state_ == 'Z' || state_ == 'X'; }
  std::string_view name() const { return name_; }

 private:
  std::array<char, 512> line_{};
  std::string_view name_;
  char state_ = 0;
};

bool IsOurs(pid_t tid, std::string_view name) {
  return std::ranges::any_of(own_threads, [&](const auto& own) { return own == tid; }) ||
         std::ranges::find(kNamesOfDpdk, name) != std::end(kNamesOfDpdk);
}

}  // namespace

OwnThread::OwnThread() {
  for (std::atomic<pid_t>& own : own_threads) {
    pid_t none = 0;
    if (own.compare_exchange_strong(none, gettid())) return;
  }
}

OwnThread::~OwnThread() {
  for (std::atomic<pid_t>& own : own_threads) {
    pid_t mine = gettid();
    if (own.compare_exchange_strong(mine, 0)) return;
  }
}

bool OnlyOurThreadsAreLeft() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/thread-self/../"), closedir);
  if (tasks == nullptr) return false;
  const int folder = dirfd(tasks.get());
  bool main_has_ended = false;
  while (const dirent* entry = readdir(tasks.get())) {
    pid_t tid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &tid)) continue;
    const Task task(folder, entry->d_name);
    // What cannot be read may live, or have made another one before it has ended.
    if (!task.known()) return false;
    if (task.has_ended()) {
      main_has_ended = main_has_ended || tid == getpid();
    } else if (!IsOurs(tid, task.name())) {
      return false;
    }
  }
  return main_has_ended;
}

}  // namespace pollux::compat
