// Decides when the acknowledgements that a queue pair owes are sent: at once, or with the next
// post.
#ifndef POLLUX_STACK_TRANSPORT_ACK_POLICY_H_
#define POLLUX_STACK_TRANSPORT_ACK_POLICY_H_

#include <cstdint>

namespace pollux::transport {

// A program that receives a message and answers it at once sends two packets: the acknowledgement
// and its answer. If the acknowledgement is sent alone, before the program has the completion, it
// costs a burst (on net_af_packet and net_tap a system call) in each round trip. So the
// acknowledgement is held until the next post, as long as the program posts replies, and is then
// sent in the same burst, before the post: as with an adapter, a peer has the completion of its
// SEND before it receives the answer.
//
//   state                                     action    why
//   the application has posted                kSendNow  both are sent in one burst
//   it polls for completions, none are held   kHold     it may answer what it receives
//   held for less than kMaxHoldNs             kHold     the application polls again, or the
//                                                       polling thread does if the application
//                                                       only watches its memory
//   held for kMaxHoldNs                       kSendNow  no post came: a miss
//   kMaxMisses misses in a row                kSendNow  it receives and does not answer; holding
//                                                       is tried again after kPauseTurns turns
//                                                       with work
//   any other call                            kSendNow  no post is expected
//
// One per worker, used by the worker's owner.
class AckPolicy {
 public:
  // What a turn of the loop does with owed acknowledgements and NAKs. NAKs that end a connection
  // and the acknowledgements of a queue pair that leaves RTS are never held.
  enum Action : uint8_t {
    kSendNow,  // before everything that is posted
    kHold,     // they are sent in the next turn whose action is kSendNow
  };

  static constexpr uint64_t kMaxHoldNs = 5'000;
  static constexpr uint32_t kMaxMisses = 4;
  static constexpr uint32_t kPauseTurns = 256;

  // Called before a turn of the loop in which acknowledgements may be held.
  Action Choose(uint64_t now_ns) const {
    const bool holds = since_ns_ != 0 ? now_ns - since_ns_ < kMaxHoldNs : pause_ == 0;
    return holds ? kHold : kSendNow;
  }
  // Called after a turn that held acknowledgements. `owed`: whether there are any.
  void Held(bool owed, uint64_t now_ns) {
    if (since_ns_ == 0 && owed) since_ns_ = now_ns;
  }
  // Called after a post, before the turn that sends it.
  void Posted() {
    if (since_ns_ == 0) return;
    since_ns_ = 0;
    misses_ = 0;
  }
  // Called after a turn that sent acknowledgements. `work`: whether the turn had anything to do.
  void Sent(bool work) {
    if (pause_ > 0 && work) --pause_;
    if (since_ns_ == 0) return;
    since_ns_ = 0;
    if (++misses_ < kMaxMisses) return;
    misses_ = kMaxMisses - 1;
    pause_ = kPauseTurns;
  }

 private:
  uint64_t since_ns_ = 0;  // when holding began; 0: none are held
  uint32_t misses_ = 0;
  uint32_t pause_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_ACK_POLICY_H_
