// Static probes (USDT) for bpftrace, perf and SystemTap. docs/troubleshooting.md has their table.
#ifndef POLLUX_STACK_BASE_PROBE_H_
#define POLLUX_STACK_BASE_PROBE_H_

#include <sys/sdt.h>

#include <cstdint>

#include "stack/base/types.h"

// Each function is one probe of the provider `pollux`: a single nop while nobody traces it, and an
// ELF note that says where the arguments are. Pass only values that exist already: an argument is
// computed even if nobody traces. Names, order and types of the arguments, and the numbers below,
// are an interface for users' scripts: add, but do not change. Include it in .cc files only:
// programs that use the library do not need <sys/sdt.h>.
namespace pollux::probe {

enum class RetransmitCause : uint32_t {
  kAckTimeout,
  kSequenceNak,
  kRnrNak,
  kTailProbe,        // sent without an acknowledgement for a round trip, or its result
  kMissingResponse,  // to a READ or atomic: later ones have arrived
};

enum class CallOutcome : uint32_t {
  kReply,         // whatever the RPC status
  kError,         // an RDMA_ERROR message
  kInvalidReply,  // malformed
  kNoReply,       // timed out, cancelled, or the connection or client ended
};

// A packet that was received or was to be sent is dropped. `reason` is a transport::Drop, `qpn`
// that of the local queue pair, 0 if it is not known.
[[gnu::always_inline]] inline void PacketDrop(uint8_t reason, Qpn qpn) {
  STAP_PROBE2(pollux, packet_drop, reason, qpn.value);
}

// A requester is about to send packets again, beginning with `psn` (of kMissingResponse: the oldest
// PSN whose response is missing).
[[gnu::always_inline]] inline void Retransmit(Qpn qpn, Psn psn, RetransmitCause cause) {
  STAP_PROBE3(pollux, retransmit, qpn.value, psn.value(), static_cast<uint32_t>(cause));
}

// A queue pair has changed its state. The states are numbers of ibv_qp_state.
[[gnu::always_inline]] inline void QpState(Qpn qpn, uint32_t before, uint32_t after) {
  STAP_PROBE3(pollux, qp_state, qpn.value, before, after);
}

// CM is about to deliver an event to its user. `event` is an rdma_cm_event_type, `status` as in
// rdma_cm_event; queue pair numbers are 0 as long as they are not known.
[[gnu::always_inline]] inline void CmEvent(uint32_t event, int32_t status, uint32_t qpn,
                                           uint32_t remote_qpn) {
  STAP_PROBE4(pollux, cm_event, event, status, qpn, remote_qpn);
}

// An RPC client sends a call: for the `attempt`-th time, from 1, always with the same XID.
[[gnu::always_inline]] inline void RpcClientStart(uint32_t xid, uint32_t procedure,
                                                  uint32_t attempt) {
  STAP_PROBE3(pollux, rpc_client_start, xid, procedure, attempt);
}

// A call that was sent ends for its caller, whose callback is about to be called.
[[gnu::always_inline]] inline void RpcClientEnd(uint32_t xid, CallOutcome outcome) {
  STAP_PROBE2(pollux, rpc_client_end, xid, static_cast<uint32_t>(outcome));
}

// An RPC server is about to call a handler. `connection` is the connection's number in its server.
[[gnu::always_inline]] inline void RpcServerStart(uint64_t connection, uint32_t xid,
                                                  uint32_t program, uint32_t procedure) {
  STAP_PROBE4(pollux, rpc_server_start, connection, xid, program, procedure);
}

// The handler replies. `status` is an oncrpc::AcceptStatus, also 0 if the reply denies the call.
[[gnu::always_inline]] inline void RpcServerEnd(uint64_t connection, uint32_t xid,
                                                uint32_t status) {
  STAP_PROBE3(pollux, rpc_server_end, connection, xid, status);
}

}  // namespace pollux::probe

#endif  // POLLUX_STACK_BASE_PROBE_H_
