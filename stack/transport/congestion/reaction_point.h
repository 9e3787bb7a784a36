// The sender's half of DCQCN: limits how fast one queue pair may send.
#ifndef POLLUX_STACK_TRANSPORT_CONGESTION_REACTION_POINT_H_
#define POLLUX_STACK_TRANSPORT_CONGESTION_REACTION_POINT_H_

#include <cstdint>

#include "stack/transport/congestion/dcqcn_parameters.h"

namespace pollux::transport {

// Unlimited until the first CNP, and again once the rate is back at its maximum. Each call accounts
// for the time since the last one, so no timers are needed. Owned by one worker. Source: Zhu et
// al., SIGCOMM 2015, section 5.
class ReactionPoint {
 public:
  // After a pause, a burst may be as large as the rate allows in this time, but at least one frame.
  // Longer than a worker's turn, shorter than the interval of CNPs.
  static constexpr uint64_t kBurstNs = 20'000;
  // Assumed for a port that reports no speed, Mb/s.
  static constexpr uint32_t kUnknownSpeed = 100'000;

  // `parameters` must outlive this object.
  explicit ReactionPoint(const DcqcnParameters* parameters);

  void OnCnp(uint64_t now_ns);
  // The number of frames of `frame_bytes` each, at most `most`, that may be sent now.
  int Allowed(uint64_t now_ns, uint32_t frame_bytes, int most);
  void OnSent(uint64_t bytes);
  // The time per frame of `frame_bytes` at the present rate; 0 if it is unlimited.
  uint64_t interval_ns(uint32_t frame_bytes) const;
  // When to call Allowed() again after it returned 0: at most rpg_time_reset from now, because the
  // rate increases meanwhile.
  uint64_t retry_ns(uint64_t now_ns) const;

  bool limited() const { return limited_; }
  double rate_mbps() const { return limited_ ? rate_ : max_rate_; }
  double target_mbps() const { return limited_ ? target_ : max_rate_; }
  double alpha() const { return alpha_; }

 private:
  void Advance(uint64_t now_ns);
  void AdvanceAlpha(uint64_t now_ns);
  void Limit(uint64_t now_ns);
  void Decrease(uint64_t now_ns);
  void Increase();

  const DcqcnParameters* parameters_;
  double max_rate_;  // Mb/s
  bool limited_ = false;
  double rate_ = 0;    // Mb/s
  double target_ = 0;  // Mb/s
  double alpha_ = 0;   // 0 to 1
  bool cnp_since_alpha_ = false;
  uint64_t alpha_at_ns_ = 0;     // its last update
  uint64_t decrease_at_ns_ = 0;  // the last decrease
  uint64_t increase_at_ns_ = 0;  // the last increase by time
  uint64_t bytes_ = 0;           // since the last increase by volume
  uint32_t time_stage_ = 0;      // increases by time since the last decrease
  uint32_t byte_stage_ = 0;      // increases by volume since then
  uint64_t next_send_ns_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_CONGESTION_REACTION_POINT_H_
