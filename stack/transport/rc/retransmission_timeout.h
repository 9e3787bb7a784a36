// How long a requester waits for an answer before it sends again: the local ACK timeout, and the
// probes long before it.
#ifndef POLLUX_STACK_TRANSPORT_RC_RETRANSMISSION_TIMEOUT_H_
#define POLLUX_STACK_TRANSPORT_RC_RETRANSMISSION_TIMEOUT_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>

#include "stack/transport/rc/rtt_estimator.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {

// Without an answer for a measured round trip (and its variation), the oldest unacknowledged packet
// is sent again: it makes any go-back-N peer say how far it is, long before the local ACK timeout.
// Probes back off, and are no retries: when they stay unanswered the time-out decides. `lossy`:
// after losses, while they keep the flight short.
struct RetransmissionTimeout {
  static constexpr uint64_t kFirstProbeNs = 10'000'000;  // before a round trip was measured
  static constexpr uint64_t kMinProbeNs = 500'000;       // above a scheduler's usual stalls
  // A NAK or an answer is as easily lost as what it is for, and a stall of kMinProbeNs would cost
  // many flights, a probe too many one short one.
  static constexpr uint64_t kLossyProbeNs = 50'000;
  static constexpr uint64_t kUnaskedAnswerNs = 200'000;  // above a peer's (RcResponder::kUnaskedNs)
  static constexpr int kMaxProbes = 6;                   // since the last progress
  // As long in all: where single packets are lost, all may be for a while.
  static constexpr int kMaxLossyProbes = 10;
  static_assert(kLossyProbeNs << kMaxLossyProbes >= kMinProbeNs << kMaxProbes);
  // A peer in software loses its CPU for longer than some programs, made for hardware, are ready to
  // wait in all: perftest asks for eight times 67 ms. What is noticed late after the first time-out
  // costs little, since probes and NAKs have repaired what could be repaired by then.
  static constexpr uint64_t kMaxRaisedNs = 250'000'000;

  // How long this transmission waits for its acknowledgement: what was asked for, and after
  // time-outs in a row up to four times as much, as long as that is not above kMaxRaisedNs. Source:
  // IB specification volume 1, section 9.7.6.1.3, which allows one to four times.
  static uint64_t AckNs(const ibv_qp_attr& attr, uint8_t retry_left) {
    const uint64_t asked_ns = wire::TimeoutCodeNs(attr.timeout);
    const int doublings = std::min(attr.retry_cnt - retry_left, 2);
    return std::max(asked_ns, std::min(asked_ns << doublings, kMaxRaisedNs));
  }
  // How long to wait for an answer before the first probe; twice as long before each further one.
  static uint64_t ProbeNs(const RttEstimator& rtt, bool lossy) {
    if (rtt.smoothed_ns() == 0) return kFirstProbeNs;
    return std::max(lossy ? kLossyProbeNs : kMinProbeNs, rtt.most_ns());
  }
  static int MaxProbes(bool lossy) { return lossy ? kMaxLossyProbes : kMaxProbes; }
  // After which no further answer is on its way.
  static uint64_t QuietNs(const RttEstimator& rtt, bool lossy) {
    if (rtt.smoothed_ns() == 0) return kFirstProbeNs;
    return std::max(lossy ? kLossyProbeNs : kUnaskedAnswerNs, rtt.most_ns());
  }
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RETRANSMISSION_TIMEOUT_H_
