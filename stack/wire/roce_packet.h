// A view of one RoCEv2 packet: its length is checked once, then offsets refer to the frame. Nothing
// is copied.
#ifndef POLLUX_STACK_WIRE_ROCE_PACKET_H_
#define POLLUX_STACK_WIRE_ROCE_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"
#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/udp.h"

namespace pollux::wire {

inline constexpr uint16_t kRocePort = 4791;  // UDP destination port
inline constexpr size_t kIcrcBytes = 4;

// Why a frame is not a RoCEv2 packet, or is malformed. Each reason except kNotRoce has a drop
// counter.
enum class ParseResult : uint8_t {
  kOk,
  kNotRoce,         // another EtherType, protocol or UDP port: ip::Interface handles it
  kTruncated,       // shorter than its headers, or than their length fields say
  kBadIpHeader,     // wrong IPv4 header checksum, IP options or a fragment
  kBadUdpLength,    // the UDP length contradicts the IP length
  kBadUdpChecksum,  // the checksum is present (not zero) and wrong
  kBadVersion,      // BTH TVer other than 0
  kUnknownOpcode,   // an opcode that is not in the table
  kBadPad,          // PadCnt exceeds the payload, or the opcode allows no payload
};

// A short description, for counters and messages.
const char* ParseResultName(ParseResult result);

// A packet, valid only as long as the frame from which it was parsed and which it does not own. All
// offsets are in bytes from `frame`.
struct RocePacket {
  const uint8_t* frame = nullptr;
  uint16_t l3_offset = 0;
  uint16_t bth_offset = 0;
  uint16_t ext_offset = 0;      // first byte after the BTH
  uint16_t payload_offset = 0;  // first byte after the extended headers
  uint16_t payload_length = 0;  // without pad and ICRC
  uint16_t icrc_offset = 0;
  uint8_t ip_version = 4;            // 4 or 6
  uint8_t ecn = 0;                   // the two ECN bits of the IP header
  Bth bth;                           // decoded
  const OpcodeInfo* info = nullptr;  // never null after kOk

  const uint8_t* payload() const { return frame + payload_offset; }
  Gid source() const;
  Gid destination() const;
  // Whether the packet came from `source` to `destination`.
  bool IsBetween(const Gid& source, const Gid& destination) const;
  // Extended headers, decoded in place. Valid only if info->headers has the bit.
  Feth feth() const { return ParseFeth(ext(kHasFeth)); }
  Reth reth() const { return ParseReth(ext(kHasReth)); }
  Aeth aeth() const { return ParseAeth(ext(kHasAeth)); }
  Deth deth() const { return ParseDeth(ext(kHasDeth)); }
  AtomicEth atomic_eth() const { return ParseAtomicEth(ext(kHasAtomicEth)); }
  uint64_t atomic_ack() const { return ParseAtomicAckEth(ext(kHasAtomicAckEth)); }
  uint32_t ieth() const { return ParseIeth(ext(kHasIeth)); }
  // Network byte order, as ibv_wc::imm_data.
  uint32_t immediate_be() const { return ParseImmediate(ext(kHasImmediate)); }
  // The address of header `bit` in the frame.
  const uint8_t* ext(HeaderBits bit) const {
    return frame + ext_offset + ExtHeaderOffset(info->headers, bit);
  }
};

// Whether the IP and UDP headers are those of RoCEv2, even if malformed: true for every result
// except kNotRoce.
bool IsRoceFrame(const uint8_t* frame, size_t length);
// Returns the destination queue pair number of a frame for which IsRoceFrame() is true, without
// checking anything else; nothing if the frame ends before it.
std::optional<Qpn> DestinationQpn(const uint8_t* frame, size_t length);
// Parses `length` contiguous bytes from the Ethernet header on (an 802.1Q tag is allowed). Does not
// check the ICRC (icrc.h). `*packet` is valid only after kOk. Never reads beyond `length`.
ParseResult ParseRocePacket(const uint8_t* frame, size_t length, RocePacket* packet);
// The step of ParseRocePacket() that parses the BTH to the ICRC. The UDP datagram of
// `datagram_bytes` bytes starts `datagram_offset` bytes into the frame.
[[gnu::always_inline]] inline ParseResult ParseTransport(const uint8_t* frame,
                                                         size_t datagram_offset,
                                                         size_t datagram_bytes,
                                                         RocePacket* packet) {
  if (datagram_bytes < kUdpBytes + kBthBytes + kIcrcBytes) return ParseResult::kTruncated;
  const size_t bth_offset = datagram_offset + kUdpBytes;
  const size_t icrc_offset = datagram_offset + datagram_bytes - kIcrcBytes;
  packet->bth = ParseBth(frame + bth_offset);
  if (packet->bth.version != 0) return ParseResult::kBadVersion;
  packet->info = FindOpcode(static_cast<uint8_t>(packet->bth.opcode));
  if (packet->info == nullptr) return ParseResult::kUnknownOpcode;

  const size_t payload_offset = bth_offset + kBthBytes + packet->info->header_bytes;
  if (payload_offset > icrc_offset) return ParseResult::kTruncated;
  const size_t payload_and_pad = icrc_offset - payload_offset;
  if (packet->bth.pad > payload_and_pad) return ParseResult::kBadPad;
  if (!packet->info->has_payload && payload_and_pad != 0) return ParseResult::kBadPad;
  packet->bth_offset = static_cast<uint16_t>(bth_offset);
  packet->ext_offset = static_cast<uint16_t>(bth_offset + kBthBytes);
  packet->payload_offset = static_cast<uint16_t>(payload_offset);
  packet->payload_length = static_cast<uint16_t>(payload_and_pad - packet->bth.pad);
  packet->icrc_offset = static_cast<uint16_t>(icrc_offset);
  return ParseResult::kOk;
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ROCE_PACKET_H_
