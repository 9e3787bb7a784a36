// What happened on the wire, under the names that rxe gives (/sys/class/infiniband/rxe0/.../
// hw_counters) where it has one, and drops by reason.
#ifndef POLLUX_STACK_TRANSPORT_DIAGNOSTICS_COUNTERS_H_
#define POLLUX_STACK_TRANSPORT_DIAGNOSTICS_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

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
  kScattered,  // frame in several segments
  kNotForUs,   // another MAC or IP address
  kUnknownQpn,
  kStaleQpn,        // the slot lives, the generation does not
  kWrongTransport,  // opcode of another queue pair type
  kQpState,         // not in a state that receives
  kBadPkey,
  kBadQkey,
  kBadAddress,  // not from the queue pair's peer
  kBadIcrc,
  kUnexpectedResponse,
  kOutOfSequence,     // silently, after one NAK
  kAfterRnr,          // silently, after an RNR NAK
  kDuplicateDropped,  // a duplicate that cannot be answered again
  kNoReceive,         // UC or UD without a posted receive
  kReceiveTooSmall,   // UC or UD message longer than the posted receive
  kRefused,           // UC request that the key or the queue pair does not allow
  kUnresolved,        // the next hop's MAC is not known
  kEgressFull,        // an answer that the device would not take
  kNoBuffer,          // packet pool exhausted
  kUnsupportedL3,     // neither IPv4 nor ARP nor what the interface handles
  kCount
};
// snake_case, for tables and telemetry.
const char* DropName(Drop drop);

// Of a port, or of one queue pair: then without what happens before its queue pair is known, and
// bytes are those of payload instead of whole frames.
struct Counters {
  // What nearly every packet or message counts stands together.
  uint64_t sent_pkts = 0;
  uint64_t rcvd_pkts = 0;
  uint64_t sent_bytes = 0;
  uint64_t rcvd_bytes = 0;
  uint64_t rdma_sends = 0;
  uint64_t rdma_recvs = 0;
  uint64_t ack_deferred = 0;        // acknowledgements that were asked for, and left to a later one
  uint64_t retransmitted_pkts = 0;  // requests
  uint64_t retransmitted_responses = 0;  // to READs and atomics
  uint64_t tail_probes = 0;              // by a requester that heard nothing for a round trip
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
  uint64_t send_err = 0;  // packets that could not be sent: no buffer, no room, no way there
  // Congestion control, under mlx5's names: CNPs that slowed a sender down, that met none (it is
  // off), CNPs sent, and packets for us that the network had marked.
  uint64_t rp_cnp_handled = 0;
  uint64_t rp_cnp_ignored = 0;
  uint64_t np_cnp_sent = 0;
  uint64_t np_ecn_marked_roce_packets = 0;
  std::array<uint64_t, static_cast<size_t>(Drop::kCount)> drops{};

  uint64_t retransmitted() const { return retransmitted_pkts + retransmitted_responses; }
  void Count(Drop drop) { ++drops[static_cast<size_t>(drop)]; }
  uint64_t drop(Drop reason) const { return drops[static_cast<size_t>(reason)]; }

  // Calls `visit` for each with its name: its member's, and "drops/" with DropName().
  void Visit(absl::FunctionRef<void(std::string_view name, uint64_t value)> visit) const;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_DIAGNOSTICS_COUNTERS_H_
