// A pcapng file that is written while frames are sent and received.
#ifndef POLLUX_STACK_IO_CAPTURE_CAPTURE_FILE_H_
#define POLLUX_STACK_IO_CAPTURE_CAPTURE_FILE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/types.h"
#include "stack/io/capture/capture_ring.h"

namespace pollux::io {

// Owned by a control thread; a separate thread writes. DPDK's rte_pcapng is not used: it takes an
// mbuf from a pool for each frame on the packet path, knows only the ethdevs that existed when the
// file was opened, reads its own clock, and loses the rest of a block if a full disk cuts a write
// short.
class CaptureFile {
 public:
  using StartThread = std::function<std::thread(std::function<void()> run)>;
  using EpochNs = std::function<uint64_t()>;

  // Creates or truncates the file at `path`. If another process is writing a capture there, appends
  // "." and this process's ID to the name, as path() then shows. Two captures of one process do not
  // exclude each other.
  // `epoch_ns` returns the current difference between the time in nanoseconds since 1970 and a
  // worker's `now_ns`. The writing thread calls it repeatedly, so that the times follow the
  // system's clock: twice each time, to use the larger result. `start` starts that thread; null:
  // std::thread does. Errors name the file: NotFound, PermissionDenied and the like.
  static absl::StatusOr<std::unique_ptr<CaptureFile>> Open(const std::string& path,
                                                           EpochNs epoch_ns,
                                                           const StartThread& start = nullptr);
  ~CaptureFile();  // as Close(), ignoring its result
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  // The name of the file.
  const std::string& path() const { return path_; }

  // Adds a port, whose frames are to be put into the returned ring. The ring is owned by this
  // object. May be called at any time before Close().
  CaptureRing* AddInterface(const std::string& name, const MacAddress& mac);

  // Writes what the rings hold and ends the file. Call it when no worker uses the rings any more.
  // Returns an error if frames are missing: that of the first write that failed (for example: disk
  // full, the file size limit, a pipe that nobody reads any more), DeadlineExceeded if the reader
  // of a pipe now takes nothing for a second, or DataLoss if frames arrived faster than they could
  // be written. Further calls return the same.
  absl::Status Close();

 private:
  struct Interface {
    std::string name;
    MacAddress mac;
    uint64_t last_time_ns;  // of its last frame; used by the writing thread
    std::unique_ptr<CaptureRing> ring;
  };

  CaptureFile(std::string path, int file, EpochNs epoch_ns, const StartThread& start);
  void Run();
  bool Drain();
  void DescribeNew();
  void Flush();
  bool IsStopping();

  const std::string path_;
  const EpochNs epoch_ns_;
  int file_;
  absl::Status result_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;                                   // under mutex_
  std::vector<std::unique_ptr<Interface>> interfaces_;  // under mutex_

  // Used by the writing thread, and by Close() after that thread has ended.
  std::vector<Interface*> known_;
  std::vector<uint8_t> buffer_;
  uint64_t frames_in_buffer_ = 0;
  uint64_t last_time_ns_ = 0;
  uint64_t unwritten_ = 0;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_CAPTURE_CAPTURE_FILE_H_
