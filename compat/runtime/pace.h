// When the progress thread takes a turn of the loop, and how it pauses.
#ifndef POLLUX_COMPAT_RUNTIME_PACE_H_
#define POLLUX_COMPAT_RUNTIME_PACE_H_

#include <cstdint>

#include "stack/engine/loop/idle.h"

namespace pollux::compat {

// One thread's. It has a turn to take when
//  - a thread of the program sleeps until a completion is announced, or has armed a completion
//    queue to do so: then without a pause as long as there is something to do, and after
//    `yield_after` turns without, as `idle` says;
//  - or nobody has driven for kAbandonedNs: a program may compute, and its peers' packets are to be
//    answered all the same. After kSpinTurns without work it naps in between. Threads that wait for
//    events of connections are served so too: one that polls may well stand beside them.
// Otherwise it naps, so that a program that polls has its CPU for itself: the longer one has polled
// on, the longer. So has its CPU one that has called a moment ago and now waits for its memory to
// change (ib_write_lat): what came meanwhile is served at the end of a nap, and as long as such
// naps find something they are short. Its acknowledgement is left to the answer that the program
// posts then (HeldAnswers), so that the peer, which polls until it has both, needs no nap for it.
// While more comes, there is no nap at all. Nor does it yield where another thread takes the CPU
// for long when it may: it naps instead, when it would have yielded.
class Pace {
 public:
  // Of the thread, among those that want its CPU.
  enum class Standing : uint8_t {
    kUsual,
    kWokenAtOnce,  // from a nap
    kAhead,        // and has the larger part of the CPU
  };
  // kRelax: a microsecond, with the CPU kept. kSleep: a nap while a thread of the program sleeps.
  enum class Pause : uint8_t { kNone, kRelax, kYield, kNap, kSleep };
  // What a turn of the loop has found.
  struct Found {
    bool work = false;
    uint64_t packets = 0;
  };

  static constexpr uint64_t kAbandonedNs = 50'000;
  static constexpr uint64_t kNapNs = 100'000;  // what a packet waits at most that comes meanwhile
  static constexpr uint32_t kSpinTurns = 4096;
  // A program that has called no longer ago may be about to call again, on this thread's CPU.
  static constexpr uint64_t kMomentNs = 1'000'000;
  // A nap takes up to 30 us of the CPU in virtual machines: of one that polls, a fifth at kNapNs.
  // One that has polled for kPollingLooks naps leaves its packets no longer than an eighth of that
  // time when it then does something else.
  static constexpr uint32_t kPollingLooks = 40;
  static constexpr uint64_t kLongNapNs = 500'000;
  // Going to sleep and being woken take 30 us of the CPU there: between messages the program has
  // more of it than the thread, and time to answer what it finds in its memory.
  static constexpr uint64_t kShortNapNs = 50'000;
  static constexpr uint32_t kShortNaps = 8;  // in vain, before they are long again
  // So long after its last call a program that waits for its memory stands back for this thread,
  // without which nothing changes there: a message of 8 MiB takes 5 to 10 ms. One that has called
  // longer ago computes, whatever its peers send.
  static constexpr uint64_t kAheadNs = 20'000'000;
  // So many packets since a nap are a message of which more is to come: for the next one this
  // thread stays awake for about as long as a nap would cost.
  static constexpr uint64_t kStreamPackets = 4;
  static constexpr uint32_t kStreamTurns = 256;
  // One that polls has called within that time before the nap was to end. What came then, up to 50
  // us in virtual machines until this thread has the CPU, is not its silence.
  static constexpr uint64_t kBetweenPollsNs = 2'000;
  // And one that waits for its memory has not for so long.
  static constexpr uint64_t kWaitsNs = 10'000;

  // Who yields for longer has left the CPU to a thread that runs on, and has it back when that
  // one's slice is over: up to a tick of 4 ms (the scheduler of Linux 6.18 takes the rest of one's
  // own slice for it). From a nap it is woken at once.
  static constexpr uint64_t kOthersNs = 50'000;
  static constexpr uint32_t kSharedNaps = 4096;  // before it yields once more, to see

  // What to do after `yield_after` turns without work (0: never), until it naps.
  Pace(engine::Idle idle, uint32_t yield_after) : idle_(idle), yield_after_(yield_after) {}

  // Whether a turn is due; after each pause. `driven_ns`: when the program has last driven, by a
  // clock that may be a little ahead of this one.
  bool Due(uint64_t now_ns, uint64_t driven_ns, bool sleep_expected);
  // Then either of them: what to do before the next look.
  Pause AfterTurn(const Found& found);
  Pause WithoutTurn();
  // At the last look: what a turn finds in the port the program may be about to answer.
  bool AwaitsPost() const { return called_lately_ && !sleep_expected_; }
  // After a kYield that has taken so long.
  void Yielded(uint64_t ns) {
    if (ns > kOthersNs) shared_naps_left_ = kSharedNaps;
  }
  // Of the nap or sleep that they have asked for last; the thread is to be woken when a thread of
  // the program is about to sleep.
  uint64_t nap_ns() const { return nap_ns_; }
  // At the last look, after such a nap or before it.
  Standing standing() const {
    if (sleep_expected_ || nap_ns_ != kShortNapNs) return Standing::kUsual;
    return silent_ns_ < kAheadNs ? Standing::kAhead : Standing::kWokenAtOnce;
  }

 private:
  uint64_t SilenceOfAbandoned() const;
  Pause AfterIdleTurnForSleeper();
  Pause Nap();

  engine::Idle idle_;
  uint32_t yield_after_;
  uint32_t idle_turns_ = 0;     // since the last one with work
  uint32_t polling_looks_ = 0;  // in a row that found the program driving
  uint32_t short_naps_left_ = 0;
  uint32_t shared_naps_left_ = 0;
  uint64_t packets_ = 0;  // since the last nap, as the next
  bool worked_ = false;
  uint64_t nap_ns_ = kNapNs;
  engine::SleepLength sleep_length_;
  uint64_t look_ns_ = 0;
  uint64_t silent_ns_ = 0;       // the program, at the last look
  bool napped_ = false;          // since the last look
  bool sleep_expected_ = false;  // at the last look, as the next
  bool called_lately_ = false;
  bool waits_ = false;  // the program, for something else than a call of its own
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_PACE_H_
