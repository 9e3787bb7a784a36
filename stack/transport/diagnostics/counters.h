// Counters of packets and errors. They have the names of their counterparts in rxe
// (/sys/class/infiniband/rxe0/.../hw_counters), if there are any. Drops are counted by reason.
#ifndef POLLUX_STACK_TRANSPORT_DIAGNOSTICS_COUNTERS_H_
#define POLLUX_STACK_TRANSPORT_DIAGNOSTICS_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "stack/base/types.h"

namespace pollux::transport {

// Why a packet was dropped.
enum class Drop : uint8_t {
  kTruncated,
  kBadIpHeader,
  kBadUdpLength,
  kBadUdpChecksum,
  kBadBthVersion,
  kUnknownOpcode,
  kBadPad,
  kScattered,  // a frame in several mbuf segments
  kNotForUs,   // another MAC or IP address
  kUnknownQpn,
  kStaleQpn,        // the queue pair's slot is in use by another generation
  kWrongTransport,  // an opcode of another queue pair type
  kQpState,         // the queue pair is not in a state that receives
  kBadPkey,
  kBadQkey,
  kBadAddress,  // the source is not the queue pair's peer, or no host (UD)
  kBadIcrc,
  kUnexpectedResponse,
  kOutOfSequence,     // dropped without a NAK, because one was sent
  kAfterRnr,          // dropped without a NAK, after an RNR NAK
  kDuplicateDropped,  // a duplicate request that cannot be answered again
  kNoReceive,         // UC or UD without a posted receive
  kReceiveTooSmall,   // a UC or UD message longer than the posted receive
  kRefused,           // a UC request that the key or the queue pair does not allow
  kUnresolved,        // the next hop's MAC address is unknown
  kEgressFull,        // a reply that the device did not accept
  kNoBuffer,          // the packet pool is empty
  kUnsupportedL3,     // a protocol that the interface does not handle
  kCount
};
// The name in snake_case, for tables and telemetry.
const char* DropName(Drop drop);

// Counters of a port or of one queue pair. A queue pair's counters exclude packets that were
// dropped before their queue pair was known, and their bytes are payload bytes instead of frame
// bytes. Written by the owning worker only.
struct Counters {
  // These are updated by nearly every packet or message, so they are adjacent.
  uint64_t sent_pkts = 0;
  uint64_t rcvd_pkts = 0;
  uint64_t sent_bytes = 0;
  uint64_t rcvd_bytes = 0;
  uint64_t rdma_sends = 0;
  uint64_t rdma_recvs = 0;
  uint64_t ack_deferred = 0;        // requested acknowledgements that were merged with a later one
  uint64_t retransmitted_pkts = 0;  // requests
  uint64_t retransmitted_responses = 0;  // to READs and atomics
  uint64_t tail_probes = 0;              // by a requester without a response for a round trip
  uint64_t duplicate_request = 0;
  uint64_t out_of_seq_request = 0;
  uint64_t rcvd_rnr_err = 0;
  uint64_t send_rnr_err = 0;
  uint64_t rcvd_seq_err = 0;
  uint64_t sent_seq_nak = 0;
  uint64_t local_ack_timeout_err = 0;
  uint64_t implied_nak_seq_err = 0;
  uint64_t retry_exceeded_err = 0;
  uint64_t retry_rnr_exceeded_err = 0;
  uint64_t completer_retry_err = 0;
  uint64_t send_err = 0;  // packets that could not be sent: no buffer, full queue or no route
  // Congestion control, with mlx5's names: CNPs that slowed a sender down; CNPs for a sender
  // without congestion control; CNPs sent; received packets that the network had marked.
  uint64_t rp_cnp_handled = 0;
  uint64_t rp_cnp_ignored = 0;
  uint64_t np_cnp_sent = 0;
  uint64_t np_ecn_marked_roce_packets = 0;
  std::array<uint64_t, static_cast<size_t>(Drop::kCount)> drops{};

  uint64_t retransmitted() const { return retransmitted_pkts + retransmitted_responses; }
  // Counts a dropped packet and fires the probe packet_drop. `qpn` is that of the local queue pair,
  // 0 if it is not known. Out of line and cold, so that the packet path saves no registers for it.
  [[gnu::cold]] void Count(Drop drop, Qpn qpn = {});
  uint64_t drop(Drop reason) const { return drops[static_cast<size_t>(reason)]; }

  // Calls `visit` with the name and value of each counter: the member's name, or "drops/" followed
  // by DropName().
  void Visit(absl::FunctionRef<void(std::string_view name, uint64_t value)> visit) const;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_DIAGNOSTICS_COUNTERS_H_
