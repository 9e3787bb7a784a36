// Tracks whether a peer acknowledges messages that do not request it.
#ifndef POLLUX_STACK_TRANSPORT_RC_PEER_ACK_BEHAVIOR_H_
#define POLLUX_STACK_TRANSPORT_RC_PEER_ACK_BEHAVIOR_H_

#include <algorithm>
#include <cstdint>

namespace pollux::transport {

// A requester whose application waits for no completion need not request acknowledgements: the peer
// then decides when to send one, for many messages (as RcResponder does). IB does not require this,
// and Linux rxe acknowledges only if requested: the requester would then have to probe. So some
// messages are sent without a request as trials, and the requester relies on the peer once it has
// sent an unrequested acknowledgement.
class PeerAckBehavior {
 public:
  // Failed trials after which every message to a peer requests an acknowledgement, if the peer has
  // never sent one without a request. More than one, because a stall or a loss makes a trial fail,
  // too.
  static constexpr int kTrials = 3;
  // Failed trials that are tolerated after a peer has sent an acknowledgement without a request.
  static constexpr int kTrusted = 16;
  // After this interval, a peer from which every message requests an acknowledgement gets one more
  // trial.
  static constexpr uint64_t kRetryNs = 10'000'000'000;

  void Reset() { *this = PeerAckBehavior(); }
  bool MayLeave(uint64_t now_ns) const { return left_ > 0 || now_ns >= retry_ns_; }
  // The peer has sent an unrequested acknowledgement; no request or probe was pending.
  void OnVolunteered() { left_ = kTrusted; }
  // A message without a request was not acknowledged before its probe was due.
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
