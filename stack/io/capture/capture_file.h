// A pcapng file that is written while frames pass.
#ifndef POLLUX_STACK_IO_CAPTURE_CAPTURE_FILE_H_
#define POLLUX_STACK_IO_CAPTURE_CAPTURE_FILE_H_

#include <condition_variable>
#include <cstdint>
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

// Owned by a control thread; a thread of its own writes. DPDK's rte_pcapng is not used: it takes an
// mbuf from a pool for each frame on the packet path, knows only the ethdevs that existed when the
// file was opened, tells its own time, and loses the end of a block that a full disk cuts.
class CaptureFile {
 public:
  // Creates or empties the file. `epoch_ns` is what to add to the workers' `now_ns` to get
  // nanoseconds since 1970. Errors name the file: NotFound, PermissionDenied and the like.
  static absl::StatusOr<std::unique_ptr<CaptureFile>> Open(const std::string& path,
                                                           uint64_t epoch_ns);
  ~CaptureFile();  // as Close(), whose result is lost
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  // A port whose frames will come through the ring, which lives as long as this. Any time before
  // Close().
  CaptureRing* AddInterface(const std::string& name, const MacAddress& mac);

  // Writes what the rings hold and ends the file. To be called when no worker uses the rings any
  // more. Not OK when frames are missing: the error of the first write that failed (a full disk),
  // or DataLoss when frames came faster than they could be written. Again: the same.
  absl::Status Close();

 private:
  struct Interface {
    std::string name;
    MacAddress mac;
    bool described;  // its block is written
    std::unique_ptr<CaptureRing> ring;
  };

  CaptureFile(std::string path, int file, uint64_t epoch_ns);
  void Run();
  bool Drain();
  void DescribeNew();
  void Flush();

  const std::string path_;
  const uint64_t epoch_ns_;
  int file_;
  absl::Status result_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;                                   // under mutex_
  std::vector<std::unique_ptr<Interface>> interfaces_;  // under mutex_

  // The writing thread's own; after it has ended, Close()'s.
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
