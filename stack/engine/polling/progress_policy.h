// Decides when a polling thread takes a turn of the loop, and what it does between two turns.
#ifndef POLLUX_STACK_ENGINE_POLLING_PROGRESS_POLICY_H_
#define POLLUX_STACK_ENGINE_POLLING_PROGRESS_POLICY_H_

#include <cstdint>

#include "stack/engine/polling/idle_option.h"
#include "stack/engine/polling/sleep_length.h"
#include "stack/transport/ack_policy.h"

namespace pollux::engine {

// The priority of a polling thread over other threads on its CPU.
enum class SchedulingBoost : uint8_t {
  kNone,
  kWokenAtOnce,  // gets the CPU without delay after a nap
  kAhead,        // also gets the larger part of the CPU
};

// The other threads that poll the worker of a ProgressThread.
enum class Application : uint8_t {
  kNative,      // none, or threads that announce when they wait (SharedPoll)
  kUnmodified,  // a verbs program: each call polls, and silence may mean anything
};

// The policy of one ProgressThread. `silent`: the time since a thread of the application last
// polled. The first row that matches applies.
//
//   state                           action                           why
//   a thread sleeps until it is     polls without a pause; after     the thread must be woken
//   woken, or is about to           idle_turns turns without work    without delay
//   (ApplicationActivity)           as Idle says
//   - and another thread polls      yields                           that one polls for both
//   native, silent for              as for a thread that sleeps      a thread may wait without
//   kAbandonedNs, or forever                                         having announced it, and no
//                                                                    other polls
//   idle is kSpin, silent for less  pauses for a microsecond         it has a CPU of its own
//   than kBetweenPollsNs
//   silent for less than            naps for kNapNs, and after       the CPU is left to a program
//   kAbandonedNs (kBetweenPollsNs   kPollingLooks naps for           that polls; a nap takes up to
//   while naps are short)           kLongNapNs                       30 us of it in virtual
//                                                                    machines
//   unmodified, silent for less     polls as long as there is work,  the program waits for its
//   than kMomentNs                  then naps; acknowledgements are  memory to change
//                                   held for its post (AckPolicy)    (ib_write_lat), perhaps on
//                                                                    this CPU
//   - and something arrived in the  naps for kShortNapNs, until      the program has time to answer
//   last naps                       kShortNaps were in vain          between messages
//   - and kStreamPackets arrived    polls for kStreamTurns turns     more of the message will
//   since the last nap              without work                     follow, and a nap costs as
//                                                                    much
//   unmodified, silent for longer   polls; after idle_turns turns    the program computes, or waits
//                                   without work as Idle says; naps  in an unknown way; its peers
//                                   after kSpinTurns                 get answers all the same
//   - and a yield took longer than  naps instead of yielding, for    another thread takes a slice
//   kOthersNs                       kSharedNaps naps                 of the CPU, up to 4 ms, if it
//                                                                    may
//   - and kIdleNaps naps in a row   naps twice as long each time,    an idle program takes little
//   were in vain                    up to kIdleNapNs                 CPU
//   - and kVeryIdleNaps in a row    naps for kMaxIdleNapNs           it takes nearly none
//   were in vain
//
// The boost of its thread:
//   naps are short, silent for less than kAheadNs  kAhead        the memory for which the program
//                                                                waits changes only if this thread
//                                                                runs
//   naps are short                                 kWokenAtOnce  the program computes meanwhile
//   anything else                                  kNone
class ProgressPolicy {
 public:
  // kRelax: a microsecond, keeping the CPU. kSleep: a nap while a thread of the program sleeps.
  enum class Pause : uint8_t { kNone, kRelax, kYield, kNap, kSleep };
  // The result of a turn of the loop.
  struct Found {
    bool work = false;
    uint64_t packets = 0;
  };
  struct Options {
    Idle idle = Idle::kYield;
    uint32_t idle_turns = 256;  // without work, in a row; 0: never idle
    Application application = Application::kNative;
  };

  static constexpr uint64_t kAbandonedNs = 50'000;  // between calls of a program that keeps calling
  static constexpr uint64_t kNapNs = 100'000;       // the longest that a packet waits during a nap
  static constexpr uint32_t kSpinTurns = 4096;
  static constexpr uint64_t kMomentNs = 1'000'000;
  // If a program has polled for the length of kPollingLooks naps and then does something else, its
  // packets wait no longer than an eighth of that length.
  static constexpr uint32_t kPollingLooks = 40;
  static constexpr uint64_t kLongNapNs = 500'000;
  static constexpr uint64_t kShortNapNs = 50'000;
  static constexpr uint32_t kShortNaps = 8;
  static constexpr uint64_t kAheadNs = 20'000'000;  // a message of 8 MiB takes 5 to 10 ms
  static constexpr uint64_t kStreamPackets = 4;
  static constexpr uint32_t kStreamTurns = 256;
  // A program that polls has made a verbs or rdma_cm call within this time before the nap was to
  // end. Time after that, up to 50 us in virtual machines until this thread has the CPU, does not
  // count as silence.
  static constexpr uint64_t kBetweenPollsNs = 2'000;
  // A program that waits for its memory has made no verbs or rdma_cm call for this time.
  static constexpr uint64_t kWaitsNs = 10'000;
  static constexpr uint64_t kOthersNs = 50'000;
  static constexpr uint32_t kSharedNaps = 4096;  // before it yields again, to check
  static constexpr uint32_t kIdleNaps = 1024;    // more than 0.1 s
  static constexpr uint64_t kIdleNapNs = 1'600'000;
  static constexpr uint32_t kVeryIdleNaps = 1600;       // more than 1 s
  static constexpr uint64_t kMaxIdleNapNs = 6'400'000;  // see SleepLength::kMaxIdleNs

  explicit ProgressPolicy(const Options& options) : options_(options) {}

  // Called after each pause: returns whether a turn is due. `polled_ns` is when the application
  // last polled, by a clock that may be slightly ahead of this one.
  bool Due(uint64_t now_ns, uint64_t polled_ns, bool sleep_expected);
  // After Due(), one of these must be called. It returns what to do before the next Due().
  // `deadline_ns` is when the worker's next timer is due, UINT64_MAX if there is none.
  Pause AfterTurn(const Found& found, uint64_t deadline_ns = UINT64_MAX);
  Pause WithoutTurn();
  // What a turn of the loop may do with acknowledgements, as of the last Due().
  transport::AckPolicy::Action acks() const {
    return called_lately_ && !sleep_expected_ ? transport::AckPolicy::kHold
                                              : transport::AckPolicy::kSendNow;
  }
  // Call it after a kYield that took `ns`.
  void Yielded(uint64_t ns) {
    if (ns > kOthersNs) shared_naps_left_ = kSharedNaps;
  }
  // The length of the last nap or sleep that AfterTurn() or WithoutTurn() returned. The thread must
  // be woken when a thread of the program is about to sleep.
  uint64_t nap_ns() const { return nap_ns_; }
  // As of the last Due(), after such a nap or before it.
  SchedulingBoost boost() const {
    if (sleep_expected_ || nap_ns_ != kShortNapNs) return SchedulingBoost::kNone;
    return silent_ns_ < kAheadNs ? SchedulingBoost::kAhead : SchedulingBoost::kWokenAtOnce;
  }

 private:
  uint64_t SilenceOfAbandoned() const;
  Pause AfterIdleTurnForSleeper(uint64_t deadline_ns);
  Pause Nap();

  Options options_;
  uint32_t idle_turns_ = 0;     // turns since the last one with work
  uint32_t polling_looks_ = 0;  // calls of Due() in a row that found the program polling
  uint32_t short_naps_left_ = 0;
  uint32_t shared_naps_left_ = 0;
  uint32_t idle_naps_ = 0;  // in a row
  uint64_t packets_ = 0;    // since the last nap, like worked_
  bool worked_ = false;
  uint64_t nap_ns_ = kNapNs;
  SleepLength sleep_length_;
  uint64_t look_ns_ = 0;
  uint64_t silent_ns_ = 0;       // the program, at the last Due()
  bool napped_ = false;          // since the last Due()
  bool sleep_expected_ = false;  // at the last Due(), like called_lately_
  bool called_lately_ = false;
  bool waits_ = false;  // the program waits for something other than its own call
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_PROGRESS_POLICY_H_
