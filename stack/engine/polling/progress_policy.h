// When a polling thread takes a turn of the loop, and what it does between two.
#ifndef POLLUX_STACK_ENGINE_POLLING_PROGRESS_POLICY_H_
#define POLLUX_STACK_ENGINE_POLLING_PROGRESS_POLICY_H_

#include <cstdint>

#include "stack/engine/polling/idle_option.h"
#include "stack/engine/polling/sleep_length.h"
#include "stack/transport/ack_policy.h"

namespace pollux::engine {

// Of a polling thread, among the threads that want its CPU.
enum class SchedulingBoost : uint8_t {
  kNone,
  kWokenAtOnce,  // from a nap
  kAhead,        // and has the larger part of the CPU
};

// Who else polls the worker of a ProgressThread.
enum class Application : uint8_t {
  kNative,      // nobody, or threads that announce when they wait (SharedPoll)
  kUnmodified,  // a verbs program: each call polls, and silence may mean anything
};

// The policy of one ProgressThread. `silent`: the time since a thread of the application polled
// last. The first row that fits holds.
//
//   state                           action                            why
//   a thread sleeps until it is     polls without a pause; after      it is to be woken at once
//   woken, or is about to           idle_turns turns without work as
//   (ApplicationActivity)           Idle says
//   - and another thread polls      yields                            that one serves it too
//   native, silent for              as for one that sleeps            whoever waits says so, if not
//   kAbandonedNs, or for ever                                         by name: nobody else polls
//   idle is kSpin, silent for less  pauses for a microsecond          it has a CPU of its own
//   than kBetweenPollsNs
//   silent for less than            naps for kNapNs, and for          a program that polls has the
//   kAbandonedNs (kBetweenPollsNs   kLongNapNs after kPollingLooks    CPU for itself; a nap takes
//   up while naps are short)           naps                              to 30 us of it in virtual
//                                                                     machines
//   unmodified, silent for less     polls as long as there is work,   it waits for its memory to
//   than kMomentNs                  then naps; acknowledgements are   change (ib_write_lat), on
//   this
//                                   held for its post (AckPolicy)     CPU perhaps
//   - and something came in the     naps for kShortNapNs, until       between messages the program
//   last naps                       kShortNaps were in vain           has time to answer
//   - and kStreamPackets came       polls on for kStreamTurns turns   more of the message is to
//   come, since the last nap              without work                      and a nap costs as much
//   unmodified, silent for longer   polls; after idle_turns turns     it computes, or waits where
//                                   without work as Idle says, naps   nobody sees it; its peers are
//                                   after kSpinTurns                  answered all the same
//   - and a yield took longer than  naps where it would yield, for    another thread takes a slice
//   of kOthersNs                       kSharedNaps naps                  the CPU, up to 4 ms, when
//   it may
//   - and kIdleNaps naps in a row   naps twice as long each time, up  an idle program takes next to
//   were in vain                    to kMaxIdleNapNs                  no CPU
//
// And the boost of its thread:
//   naps are short, silent for less than kAheadNs   kAhead            nothing changes in the memory
//                                                                     for which the program waits
//                                                                     unless this thread runs
//   naps are short                                  kWokenAtOnce      it computes meanwhile
//   anything else                                   kNone
class ProgressPolicy {
 public:
  // kRelax: a microsecond, with the CPU kept. kSleep: a nap while a thread of the program sleeps.
  enum class Pause : uint8_t { kNone, kRelax, kYield, kNap, kSleep };
  // What a turn of the loop has found.
  struct Found {
    bool work = false;
    uint64_t packets = 0;
  };
  struct Options {
    Idle idle = Idle::kYield;
    uint32_t idle_turns = 256;  // in a row; 0: never idle
    Application application = Application::kNative;
  };

  static constexpr uint64_t kAbandonedNs = 50'000;  // between two calls of one that calls on
  static constexpr uint64_t kNapNs = 100'000;  // what a packet waits at most that comes meanwhile
  static constexpr uint32_t kSpinTurns = 4096;
  static constexpr uint64_t kMomentNs = 1'000'000;
  // Packets of one that has polled for kPollingLooks naps and then does something else wait no
  // longer than an eighth of that time.
  static constexpr uint32_t kPollingLooks = 40;
  static constexpr uint64_t kLongNapNs = 500'000;
  static constexpr uint64_t kShortNapNs = 50'000;
  static constexpr uint32_t kShortNaps = 8;
  static constexpr uint64_t kAheadNs = 20'000'000;  // a message of 8 MiB takes 5 to 10 ms
  static constexpr uint64_t kStreamPackets = 4;
  static constexpr uint32_t kStreamTurns = 256;
  // One that polls has called within that time before the nap was to end. What came then, up to 50
  // us in virtual machines until this thread has the CPU, is not its silence.
  static constexpr uint64_t kBetweenPollsNs = 2'000;
  // And one that waits for its memory has not for so long.
  static constexpr uint64_t kWaitsNs = 10'000;
  static constexpr uint64_t kOthersNs = 50'000;
  static constexpr uint32_t kSharedNaps = 4096;  // before it yields once more, to see
  static constexpr uint32_t kIdleNaps = 1024;    // more than 0.1 s
  static constexpr uint64_t kMaxIdleNapNs = 1'600'000;
  static_assert(kMaxIdleNapNs == kNapNs << 4);

  explicit ProgressPolicy(const Options& options) : options_(options) {}

  // Whether a turn is due; after each pause. `polled_ns`: when the application polled last, by a
  // clock that may be a little ahead of this one.
  bool Due(uint64_t now_ns, uint64_t polled_ns, bool sleep_expected);
  // Then either of them: what to do before the next look. `deadline_ns`: when the worker's next
  // timer is due, UINT64_MAX for none.
  Pause AfterTurn(const Found& found, uint64_t deadline_ns = UINT64_MAX);
  Pause WithoutTurn();
  // At the last look: what a turn of the loop may do with acknowledgements.
  transport::AckPolicy::Action acks() const {
    return called_lately_ && !sleep_expected_ ? transport::AckPolicy::kHold
                                              : transport::AckPolicy::kSendNow;
  }
  // After a kYield that has taken so long.
  void Yielded(uint64_t ns) {
    if (ns > kOthersNs) shared_naps_left_ = kSharedNaps;
  }
  // Of the nap or sleep that they have asked for last; the thread is to be woken when a thread of
  // the program is about to sleep.
  uint64_t nap_ns() const { return nap_ns_; }
  // At the last look, after such a nap or before it.
  SchedulingBoost boost() const {
    if (sleep_expected_ || nap_ns_ != kShortNapNs) return SchedulingBoost::kNone;
    return silent_ns_ < kAheadNs ? SchedulingBoost::kAhead : SchedulingBoost::kWokenAtOnce;
  }

 private:
  uint64_t SilenceOfAbandoned() const;
  Pause AfterIdleTurnForSleeper(uint64_t deadline_ns);
  Pause Nap();

  Options options_;
  uint32_t idle_turns_ = 0;     // since the last one with work
  uint32_t polling_looks_ = 0;  // in a row that found the program polling
  uint32_t short_naps_left_ = 0;
  uint32_t shared_naps_left_ = 0;
  uint32_t idle_naps_ = 0;  // in a row
  uint64_t packets_ = 0;    // since the last nap, as the next
  bool worked_ = false;
  uint64_t nap_ns_ = kNapNs;
  SleepLength sleep_length_;
  uint64_t look_ns_ = 0;
  uint64_t silent_ns_ = 0;       // the program, at the last look
  bool napped_ = false;          // since the last look
  bool sleep_expected_ = false;  // at the last look, as the next
  bool called_lately_ = false;
  bool waits_ = false;  // the program, for something else than a call of its own
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_POLLING_PROGRESS_POLICY_H_
