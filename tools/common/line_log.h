// Standard error for those who cannot wait for whoever reads it.
#ifndef POLLUX_TOOLS_COMMON_LINE_LOG_H_
#define POLLUX_TOOLS_COMMON_LINE_LOG_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pollux::tools {

// What is written waits for a thread of the log's own.
class LineLog {
 public:
  // What waits while the reader of standard error does not read: more is left out, and counted.
  static constexpr size_t kMaxWaiting = 256;

  explicit LineLog(int fd = 2);
  // Writes what waits.
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // Whole lines, with their ends. Any thread; not on the packet path.
  void Write(std::string lines);
  // Waits until what was written before is out: before a command says its last word.
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
