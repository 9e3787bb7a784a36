// Counts heap allocations and system calls of the calling thread, which the packet path must not
// make.
#ifndef POLLUX_TESTS_PACKET_PATH_METERS_H_
#define POLLUX_TESTS_PACKET_PATH_METERS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace pollux::packet_path {

// Counts between Start() and Stop(). Allocations: malloc() and related functions, and operator new,
// which uses them. System calls: by Linux's syscall user dispatch, which turns each into a signal
// for this process. Only the first system call after a Mark() is counted, so call Mark() in every
// turn of the loop. Calls that the vDSO handles are not system calls. One object at a time per
// process.
class Meters {
 public:
  // Unimplemented, with the reason, if one of the two cannot be counted.
  static absl::Status Available();

  Meters();   // requires that Available() is OK
  ~Meters();  // stops
  Meters(const Meters&) = delete;
  Meters& operator=(const Meters&) = delete;

  void Start();
  void Mark();
  void Stop();

  uint64_t allocations() const;
  uint64_t system_calls() const;
  // The number of the last counted system call, for failure messages; -1 if there was none.
  long last_system_call() const;
  // The size of the last counted allocation.
  uint64_t last_allocation_bytes() const;
};

}  // namespace pollux::packet_path

#endif  // POLLUX_TESTS_PACKET_PATH_METERS_H_
