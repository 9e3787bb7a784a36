#include "stack/transport/counters.h"

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

}  // namespace pollux::transport
