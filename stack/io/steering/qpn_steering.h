// Makes a port distribute RoCE packets by their destination queue pair number, in hardware.
#ifndef POLLUX_STACK_IO_STEERING_QPN_STEERING_H_
#define POLLUX_STACK_IO_STEERING_QPN_STEERING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

struct rte_flow;

namespace pollux::io {

// An optional capability of a port. If a port lacks it, its workers pass packets to each other by
// rings.
class QpnSteering {
 public:
  static constexpr uint8_t kMaxPrefixBits = 8;

  virtual ~QpnSteering() = default;
  // From now on RoCEv2 packets whose destination queue pair number begins with the lowest `bits` (1
  // to kMaxPrefixBits) of `prefix` arrive on receive queue `queue`. Returns Unimplemented, without
  // any change, if the port does not support that. On a control thread.
  virtual absl::Status Direct(uint32_t prefix, uint8_t bits, uint16_t queue) = 0;
  // Undoes every Direct(). On a control thread, while the port is open.
  virtual void Clear() = 0;
};

// Directs the packets of worker i (the first `bits` of a queue pair number) to queue i, for each i
// below `queues`. If the port refuses one, returns its error and directs none.
absl::Status SteerWorkersToQueues(QpnSteering& steering, uint8_t bits, uint16_t queues);

// Uses rte_flow rules that match raw bytes after the UDP header (DPDK 22.11 has no item for the
// BTH). None of the drivers with which this was developed accepts such rules: the handling of their
// refusal has been tested, but no hardware that accepts the rules.
class FlowQpnSteering final : public QpnSteering {
 public:
  // `port_id` is DPDK's. The port must be started and stay so until Clear().
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
