#include "stack/transport/diagnostics/counters.h"

#include <iterator>
#include <string>

#include "stack/base/probe.h"

namespace pollux::transport {

const char* DropName(Drop drop) {
  switch (drop) {
    case Drop::kTruncated:
      return "truncated";
    case Drop::kBadIpHeader:
      return "bad_ip_header";
    case Drop::kBadUdpLength:
      return "bad_udp_length";
    case Drop::kBadUdpChecksum:
      return "bad_udp_checksum";
    case Drop::kBadBthVersion:
      return "bad_bth_version";
    case Drop::kUnknownOpcode:
      return "unknown_opcode";
    case Drop::kBadPad:
      return "bad_pad";
    case Drop::kScattered:
      return "scattered";
    case Drop::kNotForUs:
      return "not_for_us";
    case Drop::kUnknownQpn:
      return "unknown_qpn";
    case Drop::kStaleQpn:
      return "stale_qpn";
    case Drop::kWrongTransport:
      return "wrong_transport";
    case Drop::kQpState:
      return "qp_state";
    case Drop::kBadPkey:
      return "bad_pkey";
    case Drop::kBadQkey:
      return "bad_qkey";
    case Drop::kBadAddress:
      return "bad_address";
    case Drop::kBadIcrc:
      return "bad_icrc";
    case Drop::kUnexpectedResponse:
      return "unexpected_response";
    case Drop::kOutOfSequence:
      return "out_of_sequence";
    case Drop::kAfterRnr:
      return "after_rnr";
    case Drop::kDuplicateDropped:
      return "duplicate_dropped";
    case Drop::kNoReceive:
      return "no_receive";
    case Drop::kReceiveTooSmall:
      return "receive_too_small";
    case Drop::kRefused:
      return "refused";
    case Drop::kUnresolved:
      return "unresolved";
    case Drop::kEgressFull:
      return "egress_full";
    case Drop::kNoBuffer:
      return "no_buffer";
    case Drop::kUnsupportedL3:
      return "unsupported_l3";
    case Drop::kCount:
      break;
  }
  return "invalid";
}

void Counters::Count(Drop drop, Qpn qpn) {
  ++drops[static_cast<size_t>(drop)];
  probe::PacketDrop(static_cast<uint8_t>(drop), qpn);
}

void Counters::Visit(absl::FunctionRef<void(std::string_view, uint64_t)> visit) const {
  static constexpr struct {
    const char* name;
    uint64_t Counters::*value;
  } kCounters[] = {
      {"sent_pkts", &Counters::sent_pkts},
      {"rcvd_pkts", &Counters::rcvd_pkts},
      {"sent_bytes", &Counters::sent_bytes},
      {"rcvd_bytes", &Counters::rcvd_bytes},
      {"rdma_sends", &Counters::rdma_sends},
      {"rdma_recvs", &Counters::rdma_recvs},
      {"ack_deferred", &Counters::ack_deferred},
      {"retransmitted_pkts", &Counters::retransmitted_pkts},
      {"retransmitted_responses", &Counters::retransmitted_responses},
      {"tail_probes", &Counters::tail_probes},
      {"duplicate_request", &Counters::duplicate_request},
      {"out_of_seq_request", &Counters::out_of_seq_request},
      {"rcvd_rnr_err", &Counters::rcvd_rnr_err},
      {"send_rnr_err", &Counters::send_rnr_err},
      {"rcvd_seq_err", &Counters::rcvd_seq_err},
      {"sent_seq_nak", &Counters::sent_seq_nak},
      {"local_ack_timeout_err", &Counters::local_ack_timeout_err},
      {"implied_nak_seq_err", &Counters::implied_nak_seq_err},
      {"retry_exceeded_err", &Counters::retry_exceeded_err},
      {"retry_rnr_exceeded_err", &Counters::retry_rnr_exceeded_err},
      {"completer_retry_err", &Counters::completer_retry_err},
      {"send_err", &Counters::send_err},
      {"rp_cnp_handled", &Counters::rp_cnp_handled},
      {"rp_cnp_ignored", &Counters::rp_cnp_ignored},
      {"np_cnp_sent", &Counters::np_cnp_sent},
      {"np_ecn_marked_roce_packets", &Counters::np_ecn_marked_roce_packets},
  };
  // Every member, or a new one would never be seen.
  static_assert(sizeof(Counters) ==
                sizeof(uint64_t) * (std::size(kCounters) + static_cast<size_t>(Drop::kCount)));
  for (const auto& counter : kCounters) visit(counter.name, this->*counter.value);
  for (size_t i = 0; i < drops.size(); ++i) {
    visit(std::string("drops/") + DropName(static_cast<Drop>(i)), drops[i]);
  }
}

}  // namespace pollux::transport
