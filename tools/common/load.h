// Runs operations at a given rate and measures each: the load of every measurement.
#ifndef POLLUX_TOOLS_COMMON_LOAD_H_
#define POLLUX_TOOLS_COMMON_LOAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tools/common/histogram.h"

namespace pollux::tools {

struct LoadOptions {
  static constexpr uint32_t kMaxWindow = 1024;

  uint64_t count = 1;     // total number of operations
  uint32_t window = 1;    // outstanding operations, at most kMaxWindow
  uint64_t limit_ns = 0;  // after this time no more are started; 0: no limit
  // Open loop: this many operations are scheduled per second, at equal intervals, whether or not
  // earlier ones have ended. An operation that is due while the window is full waits, and its
  // latency counts from its due time, so that a stall of the server shows in every operation that
  // was due meanwhile (no coordinated omission). 0: closed loop, in which the end of one operation
  // starts the next.
  double per_second = 0;
};

struct LoadResult {
  absl::Status status;      // the error of the first operation that failed
  uint64_t operations = 0;  // that ended successfully before any Stop()
  uint64_t elapsed_ns = 0;  // from the start of the first to the end of the last
  std::unique_ptr<Histogram> latency_ns = std::make_unique<Histogram>();

  double PerSecond() const {
    return elapsed_ns == 0
               ? 0
               : static_cast<double>(operations) * 1e9 / static_cast<double>(elapsed_ns);
  }
};

// The total of loads that ran at the same time. The time is that of the longest, the status that of
// the first that failed.
LoadResult Together(absl::Span<const LoadResult> loads);

// Not thread-safe: used only by the thread that calls Turn().
class Load {
 public:
  using Clock = absl::AnyInvocable<uint64_t()>;
  // Starts an operation. Ended(slot) must be called when it ends, which may be during this call.
  // `slot` is less than the window, and no other operation has it until then.
  using Begin = absl::AnyInvocable<void(uint32_t slot)>;

  // `done` is called once, from Turn(), Ended() or Stop(), when no operation is outstanding any
  // more.
  Load(const LoadOptions& options, Clock clock_ns, Begin begin,
       absl::AnyInvocable<void(LoadResult)> done);

  // Starts the operations that are due. Call it often for an open loop; a closed one needs only a
  // first call. Returns whether any operation was started.
  bool Turn();
  // Reports the end of an operation. The first failure ends the load, once all outstanding
  // operations have ended.
  void Ended(uint32_t slot, const absl::Status& status);
  // Starts no more operations. The result has `status` unless the load has failed before. The load
  // ends when the outstanding operations have ended; they are not counted, because the loads beside
  // which they are measured may have ended.
  void Stop(const absl::Status& status);

 private:
  // Turn() at time `now_ns`: reading the clock takes a thirtieth of a client's time for a NULL
  // call.
  bool TurnAt(uint64_t now_ns);
  bool Due(uint64_t now_ns, uint64_t* due_ns);
  void FinishIfIdle();

  const LoadOptions options_;
  Clock clock_ns_;
  Begin begin_;
  absl::AnyInvocable<void(LoadResult)> done_;
  LoadResult result_;
  uint64_t begun_ = 0;
  uint64_t start_ns_ = 0;
  bool started_ = false;
  bool stopped_ = false;
  bool was_told_to_stop_ = false;
  bool turning_ = false;
  std::vector<uint32_t> free_;    // free slots
  std::vector<uint64_t> due_ns_;  // by slot
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_LOAD_H_
