// Writes to standard error for threads that must not wait for its reader.
#ifndef POLLUX_TOOLS_COMMON_LINE_LOG_H_
#define POLLUX_TOOLS_COMMON_LINE_LOG_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tools/common/log_format.h"

namespace pollux::tools {

// Lines are queued for the log's own thread.
class LineLog {
 public:
  // The most lines that are queued while the reader of standard error does not read. Further ones
  // are dropped and counted.
  static constexpr size_t kMaxWaiting = 256;

  explicit LineLog(int fd = 2);
  // Writes the queued lines.
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // Writes in the process's style (FormatLog()). Thread-safe; not for the packet path.
  void Write(LogLevel level, std::string_view component, std::string_view message);
  // Waits until all queued lines are written. A command calls it before its final message.
  void Flush();

 private:
  void Work();

  int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable idle_;
  bool ending_ = false;
  bool writing_ = false;
  std::vector<std::string> waiting_;
  uint64_t left_out_ = 0;
  std::thread thread_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_LINE_LOG_H_
