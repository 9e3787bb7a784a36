// Count what the packet path must not do: heap allocations and system calls of the calling thread.
#ifndef POLLUX_TESTS_PACKET_PATH_METERS_H_
#define POLLUX_TESTS_PACKET_PATH_METERS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace pollux::packet_path {

// Counts between Start() and Stop(). Allocations: malloc and its kin, and operator new, which is
// built on them. System calls: by Linux's syscall user dispatch, which sends each as a signal to
// this process; only the first after a Mark() is seen, so mark every turn of the loop. Calls that
// the vDSO answers are no system calls. One at a time in a process.
class Meters {
 public:
  // Unimplemented, with the reason, where one of the two cannot be counted.
  static absl::Status Available();

  Meters();   // the process must be one where Available() is OK
  ~Meters();  // stops
  Meters(const Meters&) = delete;
  Meters& operator=(const Meters&) = delete;

  void Start();
  void Mark();
  void Stop();

  uint64_t allocations() const;
  uint64_t system_calls() const;
  // The number of the last system call seen, -1 when there was none, to say in a failure.
  long last_system_call() const;
  // The size of the last allocation seen.
  uint64_t last_allocation_bytes() const;
};

}  // namespace pollux::packet_path

#endif  // POLLUX_TESTS_PACKET_PATH_METERS_H_
