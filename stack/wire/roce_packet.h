// One RoCEv2 packet, checked once at the edge: a view of offsets into a frame. No copies.
#ifndef POLLUX_STACK_WIRE_ROCE_PACKET_H_
#define POLLUX_STACK_WIRE_ROCE_PACKET_H_

#include <cstdint>

#include "stack/base/types.h"
#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"

namespace pollux::wire {

inline constexpr uint16_t kRocePort = 4791;  // UDP destination port
inline constexpr size_t kIcrcBytes = 4;

// Why a frame is not a RoCEv2 packet, or not a well-formed one. Each has a drop counter.
enum class ParseResult : uint8_t {
  kOk,
  kNotRoce,         // another EtherType, protocol or UDP port: for stack/ip
  kTruncated,       // shorter than its own length fields or headers say
  kBadIpHeader,     // IPv4 header checksum, options, fragments
  kBadUdpLength,    // UDP length disagrees with the IP length
  kBadUdpChecksum,  // present (not zero) and wrong
  kBadVersion,      // BTH TVer other than 0
  kUnknownOpcode,   // an opcode that wire-level tables do not know
  kBadPad,          // PadCnt reaches into the headers, or bytes follow where none may
};

// In a few words, for counters and messages.
const char* ParseResultName(ParseResult result);

// Valid as long as the frame it was parsed from. All offsets count from `frame`.
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
  // Whether it came from `source` to `destination`.
  bool IsBetween(const Gid& source, const Gid& destination) const;
  // Extended headers, decoded at their place; only when info->headers has the bit.
  Reth reth() const { return ParseReth(ext(kHasReth)); }
  Aeth aeth() const { return ParseAeth(ext(kHasAeth)); }
  Deth deth() const { return ParseDeth(ext(kHasDeth)); }
  AtomicEth atomic_eth() const { return ParseAtomicEth(ext(kHasAtomicEth)); }
  uint64_t atomic_ack() const { return ParseAtomicAckEth(ext(kHasAtomicAckEth)); }
  uint32_t ieth() const { return ParseIeth(ext(kHasIeth)); }
  // Network order, as it goes into ibv_wc::imm_data.
  uint32_t immediate_be() const { return ParseImmediate(ext(kHasImmediate)); }
  // Where in the frame the header `bit` stands.
  const uint8_t* ext(HeaderBits bit) const {
    return frame + ext_offset + ExtHeaderOffset(info->headers, bit);
  }
};

// Whether the frame is RoCEv2's by its IP and UDP headers, well-formed or not: anything but
// kNotRoce.
bool IsRoceFrame(const uint8_t* frame, size_t length);
// Parses `length` contiguous bytes from the Ethernet header on (802.1Q tag allowed). Does not check
// the ICRC (icrc.h). `*packet` holds one only after kOk. Never reads past `length`.
ParseResult ParseRocePacket(const uint8_t* frame, size_t length, RocePacket* packet);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ROCE_PACKET_H_
