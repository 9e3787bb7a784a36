// How long a requester waits for a response before it retransmits: the local ACK timeout, and the
// probes long before it.
#ifndef POLLUX_STACK_TRANSPORT_RC_RETRANSMISSION_TIMEOUT_H_
#define POLLUX_STACK_TRANSPORT_RC_RETRANSMISSION_TIMEOUT_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>

#include "stack/transport/rc/rtt_estimator.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {

// If there is no response for a measured round trip (plus its variation), the oldest unacknowledged
// packet is sent again: this probe makes any go-back-N peer report how far it is, long before the
// local ACK timeout. Each further probe waits longer. Probes do not count as retries: if they stay
// unanswered, the local ACK timeout applies. `lossy`: after losses, while they keep the window
// small.
struct RetransmissionTimeout {
  static constexpr uint64_t kFirstProbeNs = 10'000'000;  // before a round trip was measured
  static constexpr uint64_t kMinProbeNs = 500'000;  // longer than the usual stalls of a scheduler
  // A NAK or a response is as easily lost as the packet that it is for. Waiting for kMinProbeNs
  // would then cost many windows; an unnecessary probe costs one small window.
  static constexpr uint64_t kLossyProbeNs = 50'000;
  static constexpr uint64_t kUnaskedAnswerNs = 200'000;  // above a peer's (RcResponder::kUnaskedNs)
  static constexpr int kMaxProbes = 6;                   // since the last progress
  // Together as long as kMaxProbes: a link that loses single packets may lose all for a while.
  static constexpr int kMaxLossyProbes = 10;
  static_assert(kLossyProbeNs << kMaxLossyProbes >= kMinProbeNs << kMaxProbes);
  // A peer in software may lose its CPU for longer than some programs, made for hardware, are
  // prepared to wait in total: perftest sets eight times 67 ms. After the first timeout, noticing a
  // loss late costs little, since probes and NAKs have repaired what could be repaired by then.
  static constexpr uint64_t kMaxRaisedNs = 250'000'000;

  // How long this transmission waits for its acknowledgement: the timeout that was set and, after
  // consecutive timeouts, up to four times as long if that is not above kMaxRaisedNs. Source: IB
  // specification volume 1, section 9.7.6.1.3, which allows one to four times.
  static uint64_t AckNs(const ibv_qp_attr& attr, uint8_t retry_left) {
    const uint64_t asked_ns = wire::TimeoutCodeNs(attr.timeout);
    const int doublings = std::min(attr.retry_cnt - retry_left, 2);
    return std::max(asked_ns, std::min(asked_ns << doublings, kMaxRaisedNs));
  }
  // How long to wait for a response before the first probe; twice as long before each further one.
  // Unless losses make every message request its acknowledgement, a peer may delay it.
  static uint64_t ProbeNs(const RttEstimator& rtt, bool lossy) {
    if (rtt.smoothed_ns() == 0) return kFirstProbeNs;
    if (lossy) return std::max(kLossyProbeNs, rtt.most_ns());
    return std::max(kMinProbeNs, rtt.most_ns() + kUnaskedAnswerNs);
  }
  static int MaxProbes(bool lossy) { return lossy ? kMaxLossyProbes : kMaxProbes; }
  // The time without responses after which none is expected any more.
  static uint64_t QuietNs(const RttEstimator& rtt, bool lossy) {
    if (rtt.smoothed_ns() == 0) return kFirstProbeNs;
    return std::max(lossy ? kLossyProbeNs : kUnaskedAnswerNs, rtt.most_ns());
  }
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RETRANSMISSION_TIMEOUT_H_
