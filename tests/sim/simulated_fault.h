// Faults of the application at one end of a connection.
#ifndef POLLUX_TESTS_SIM_SIMULATED_FAULT_H_
#define POLLUX_TESTS_SIM_SIMULATED_FAULT_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace pollux::sim {

enum class SimulatedFault : uint8_t {
  kNone,
  kNoReceives,       // posts no more receives
  kReceiveTooSmall,  // posts receives that are too small
  kReceiveGone,      // deregisters the memory of its receives
  kTargetGone,       // deregisters the memory that its peer writes, reads and changes
  kLocalGone,        // deregisters the memory of its own requests, or of one of them
  kError,            // moves its queue pair to ERR
  kReset,            // moves it to RESET
  kDestroyed,        // destroys it
  // The last one affects a whole host, which does not poll its completion queue until it overflows.
  kCompletionsLost,
};
inline constexpr uint64_t kSimulatedFaults = 10;

// Whether a request may fail with `status` at the end with the fault, and at its peer. To the other
// end, a fault may look as if the peer did not answer.
inline bool MayFailHere(SimulatedFault fault, ibv_wc_status status) {
  switch (fault) {
    case SimulatedFault::kNone:
      return false;
    case SimulatedFault::kLocalGone:
      return status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_WR_FLUSH_ERR;
    default:
      return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR;
  }
}
inline bool MayFailAtPeer(SimulatedFault fault, ibv_wc_status status) {
  switch (fault) {
    case SimulatedFault::kNone:
      return false;
    case SimulatedFault::kNoReceives:
      return status == IBV_WC_RNR_RETRY_EXC_ERR;
    case SimulatedFault::kReceiveTooSmall:
      return status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_RETRY_EXC_ERR;
    case SimulatedFault::kReceiveGone:
      return status == IBV_WC_REM_OP_ERR || status == IBV_WC_RETRY_EXC_ERR;
    case SimulatedFault::kTargetGone:
      return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_RETRY_EXC_ERR;
    default:
      return status == IBV_WC_RETRY_EXC_ERR;
  }
}
// The same for receives at the end with the fault, besides IBV_WC_WR_FLUSH_ERR.
inline bool MayFailReceive(SimulatedFault fault, ibv_wc_status status) {
  return (fault == SimulatedFault::kReceiveTooSmall && status == IBV_WC_LOC_LEN_ERR) ||
         (fault == SimulatedFault::kReceiveGone && status == IBV_WC_LOC_PROT_ERR);
}

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_SIMULATED_FAULT_H_
