// Whether a peer acknowledges messages that do not ask for it.
#ifndef POLLUX_STACK_TRANSPORT_RC_PEER_ACK_BEHAVIOR_H_
#define POLLUX_STACK_TRANSPORT_RC_PEER_ACK_BEHAVIOR_H_

#include <algorithm>
#include <cstdint>

namespace pollux::transport {

// A requester whose application waits for no completion may leave the acknowledgement to the peer,
// which then sends one for many messages (RcResponder does). IB does not oblige it to, and Linux
// rxe answers only what asks: then the requester would have to probe. So the peer is tried, and
// trusted when it has shown that it does.
class PeerAckBehavior {
 public:
  // Trials before one that has shown nothing is asked every time: a stall or a loss fails one too.
  static constexpr int kTrials = 3;
  // Failures that are forgiven to one that has shown it.
  static constexpr int kTrusted = 16;
  // After so long one that is asked every time gets one more trial.
  static constexpr uint64_t kRetryNs = 10'000'000'000;

  void Reset() { *this = PeerAckBehavior(); }
  bool MayLeave(uint64_t now_ns) const { return left_ > 0 || now_ns >= retry_ns_; }
  // It has acknowledged what had not asked, with nothing sent again and nothing asked before.
  void OnVolunteered() { left_ = kTrusted; }
  // A message that did not ask was not acknowledged until its probe was due.
  void OnSilence(uint64_t now_ns) {
    left_ = std::max(left_ - 1, 0);
    retry_ns_ = now_ns + kRetryNs;
  }

 private:
  int left_ = kTrials;
  uint64_t retry_ns_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_PEER_ACK_BEHAVIOR_H_
