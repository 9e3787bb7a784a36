// Has a port sort RoCE packets by their destination queue pair number, in hardware.
#ifndef POLLUX_STACK_IO_STEERING_QPN_STEERING_H_
#define POLLUX_STACK_IO_STEERING_QPN_STEERING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

struct rte_flow;

namespace pollux::io {

// What a port may be able to do. Workers whose port cannot hand packets to each other by rings.
class QpnSteering {
 public:
  static constexpr uint8_t kMaxPrefixBits = 8;

  virtual ~QpnSteering() = default;
  // From now on RoCEv2 packets whose destination queue pair number begins with the lowest `bits`
  // (1 to kMaxPrefixBits) of `prefix` arrive on receive queue `queue`. Unimplemented when the port
  // does not do that; nothing has changed then. On a control thread.
  virtual absl::Status Direct(uint32_t prefix, uint8_t bits, uint16_t queue) = 0;
  // Undoes every Direct(). On a control thread, while the port is open.
  virtual void Clear() = 0;
};

// Queue i for the packets of worker i (the first `bits` of a queue pair number), for each of
// `queues`: for all of them or, with the first refusal as the result, for none.
absl::Status SteerWorkersToQueues(QpnSteering& steering, uint8_t bits, uint16_t queues);

// By rte_flow rules that match raw bytes behind the UDP header (DPDK 22.11 has no item for the
// BTH). None of the drivers that this was developed on takes such rules: what is known to work is
// that their refusal is noticed. Untried on hardware that takes them.
class FlowQpnSteering final : public QpnSteering {
 public:
  // `port_id` as DPDK counts, of a port that is started and stays so until Clear().
  explicit FlowQpnSteering(uint16_t port_id) : port_id_(port_id) {}
  ~FlowQpnSteering() override { Clear(); }
  FlowQpnSteering(const FlowQpnSteering&) = delete;
  FlowQpnSteering& operator=(const FlowQpnSteering&) = delete;

  absl::Status Direct(uint32_t prefix, uint8_t bits, uint16_t queue) override;
  void Clear() override;

 private:
  uint16_t port_id_;
  std::vector<rte_flow*> rules_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_STEERING_QPN_STEERING_H_
