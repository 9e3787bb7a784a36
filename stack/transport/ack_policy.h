// When the acknowledgements that a queue pair owes leave: at once, or with the next post.
#ifndef POLLUX_STACK_TRANSPORT_ACK_POLICY_H_
#define POLLUX_STACK_TRANSPORT_ACK_POLICY_H_

#include <cstdint>

namespace pollux::transport {

// A program that takes a message and answers it at once sends two packets, the acknowledgement and
// its answer. Sent alone, before the program has the completion, the first one costs a burst (on
// net_af_packet and net_tap a system call) in the middle of each round trip. So it is held for the
// post that follows, as long as posts do follow, and then leaves before it in one burst: a peer has
// the completion of its SEND before it sees the answer, as from an adapter.
//
//   state                                         action    why
//   the application has posted                    kSendNow  both leave in one burst
//   it looks for completions, none are held       kHold     it may answer what it finds
//   they are held, since less than kMaxHoldNs     kHold     it, or the thread that polls for one
//                                                           that watches its memory, looks again
//   they are held since kMaxHoldNs                kSendNow  no post came: a miss
//   kMaxMisses misses in a row                    kSendNow  it receives and does not answer; tried
//                                                           again after kPauseTurns turns with work
//   any other call                                kSendNow  no post is to be expected
//
// One per worker, of the worker's owner.
class AckPolicy {
 public:
  // What a turn of the loop does with the acknowledgements and NAKs that are owed. NAKs that end a
  // connection and the acknowledgements of a queue pair that leaves RTS are never held.
  enum Action : uint8_t {
    kSendNow,  // before all that is posted
    kHold,     // they leave with the next turn that does not hold
  };

  static constexpr uint64_t kMaxHoldNs = 5'000;
  static constexpr uint32_t kMaxMisses = 4;
  static constexpr uint32_t kPauseTurns = 256;

  // Before a turn of the loop in which they may be held.
  Action Choose(uint64_t now_ns) const {
    const bool holds = since_ns_ != 0 ? now_ns - since_ns_ < kMaxHoldNs : pause_ == 0;
    return holds ? kHold : kSendNow;
  }
  // After a turn that held; whether there are any.
  void Held(bool owed, uint64_t now_ns) {
    if (since_ns_ == 0 && owed) since_ns_ = now_ns;
  }
  // After a post, before the turn that sends it.
  void Posted() {
    if (since_ns_ == 0) return;
    since_ns_ = 0;
    misses_ = 0;
  }
  // After a turn that sent them; whether there was anything to do in it.
  void Sent(bool work) {
    if (pause_ > 0 && work) --pause_;
    if (since_ns_ == 0) return;
    since_ns_ = 0;
    if (++misses_ < kMaxMisses) return;
    misses_ = kMaxMisses - 1;
    pause_ = kPauseTurns;
  }

 private:
  uint64_t since_ns_ = 0;  // 0: none are held
  uint32_t misses_ = 0;
  uint32_t pause_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_ACK_POLICY_H_
