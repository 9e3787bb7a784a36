// Operations at a pace, each timed: the load of every measurement.
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

  uint64_t count = 1;     // operations in all
  uint32_t window = 1;    // under way at once, at most kMaxWindow
  uint64_t limit_ns = 0;  // after so long no more are begun; 0: no limit
  // Open loop: so many become due a second, evenly, whatever becomes of those before. One that is
  // due while the window is full waits, and its latency counts from when it was due: a server that
  // stalls is seen by every operation that would have come meanwhile (no coordinated omission).
  // 0: closed loop, in which the end of one begins the next.
  double per_second = 0;
};

struct LoadResult {
  absl::Status status;      // of the first operation that failed
  uint64_t operations = 0;  // that came to their end, well, before any Stop()
  uint64_t elapsed_ns = 0;  // from the first's beginning to the last's end
  std::unique_ptr<Histogram> latency_ns = std::make_unique<Histogram>();

  double PerSecond() const {
    return elapsed_ns == 0
               ? 0
               : static_cast<double>(operations) * 1e9 / static_cast<double>(elapsed_ns);
  }
};

// What loads that ran at once did together: the longest is how long it took. Their end is that of
// the first that failed.
LoadResult Together(absl::Span<const LoadResult> loads);

// Belongs to whoever turns it; single-threaded.
class Load {
 public:
  using Clock = absl::AnyInvocable<uint64_t()>;
  // Begins an operation, whose end is told by Ended(slot), from inside too. `slot` is below the
  // window and no other operation's until then.
  using Begin = absl::AnyInvocable<void(uint32_t slot)>;

  // `done` is called once, from Turn() or Ended(), when nothing is under way any more.
  Load(const LoadOptions& options, Clock clock_ns, Begin begin,
       absl::AnyInvocable<void(LoadResult)> done);

  // Begins what is due. The open loop lives by being turned often, the closed one by a first turn.
  // Returns whether anything began.
  bool Turn();
  // The first failure ends the load: what is under way is waited for.
  void Ended(uint32_t slot, const absl::Status& status);
  // Begins no more; `status` is its end unless it has failed before. What is under way is waited
  // for and does not count: what it was measured beside may be over.
  void Stop(const absl::Status& status);

 private:
  // Turn() at `now_ns`: to read the clock takes a client a thirtieth of its time for a NULL call.
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
  std::vector<uint32_t> free_;    // slots
  std::vector<uint64_t> due_ns_;  // by slot
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_LOAD_H_
