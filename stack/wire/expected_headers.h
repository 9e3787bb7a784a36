// The headers that the next packet of a flow is expected to have, to recognise it quickly.
#ifndef POLLUX_STACK_WIRE_EXPECTED_HEADERS_H_
#define POLLUX_STACK_WIRE_EXPECTED_HEADERS_H_

#include <emmintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/base/byte_order.h"
#include "stack/base/planted_fault.h"
#include "stack/wire/bth.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"
#include "stack/wire/udp.h"

namespace pollux::wire {

// The headers are learned from a packet that passed all checks. A packet with the same bytes,
// except in fields that vary within a flow, passes all checks that depend only on the compared
// bytes: of addresses, destination QPN, P_Key, protocols and versions. Only packets over IPv4
// without a VLAN tag and without a UDP checksum, which are nearly all packets, are learned.
class ExpectedHeaders {
 public:
  // The functions that take a frame need at least this many bytes of it.
  static constexpr size_t kMinFrameBytes =
      kEthernetBytes + kIpv4Bytes + kUdpBytes + kBthBytes + kIcrcBytes;

  // The destination QPN if the frame is RoCEv2 over IPv4 without a tag and without IP options;
  // otherwise meaningless.
  static Qpn DestQpn(const uint8_t* frame) {
    return Qpn{LoadBe32(frame + kBthOffset + bth_fields::kDestQpn - 1) & 0xFFFFFF};
  }

  static bool IsIpv4(const uint8_t* frame) {
    return LoadBe16(frame + ethernet::kType) == kEtherTypeIpv4;
  }
  // Returns null for an opcode that is not in the table.
  static const OpcodeInfo* OpcodeInfoOf(const uint8_t* frame) {
    return FindOpcode(frame[kBthOffset + bth_fields::kOpcode]);
  }

  // Stores the headers of `packet`, which must have passed all checks. Calls Forget() if the packet
  // is not of the kind described above.
  void Learn(const RocePacket& packet) {
    if (packet.ip_version != 4 || packet.l3_offset != kEthernetBytes ||
        LoadBe16(packet.frame + kUdpOffset + udp::kChecksum) != 0) {
      Forget();
      return;
    }
    for (size_t i = 0; i < kBlocks; ++i) blocks_[i] = Masked(packet.frame, i);
    address_sum_ = Ipv4AddressSum(packet.frame + kEthernetBytes);
  }
  // From now on no packet is expected.
  void Forget() {
    for (__m128i& block : blocks_) block = _mm_setzero_si128();
  }

  // A message of one packet.
  struct SinglePacketMessage {
    const uint8_t* ext;  // after the BTH: the extended headers, then the payload
    size_t ext_bytes;    // extended headers and payload, without the pad; never 0
    size_t l3_bytes;     // from the IP header to the end of the pad, where the ICRC is
    Psn psn;
    bool ack_request;
    bool solicited;
  };
  // As Parse(), but only for packets without a CE mark and with at least one byte after the BTH.
  // Checks neither the opcode nor the length of its extended headers.
  [[gnu::always_inline]] bool ParseSinglePacket(const uint8_t* frame, size_t length,
                                                SinglePacketMessage* message) const {
    if (!HasHeaders(frame)) [[unlikely]]
      return false;
    const uint8_t* ip = frame + kEthernetBytes;
    const uint8_t* bth = frame + kBthOffset;
    const size_t total_length = LoadBe16(ip + ipv4::kTotalLength);
    const size_t pad = bth[bth_fields::kFlags] >> bth_fields::kPadShift & bth_fields::kPadMask;
    constexpr size_t kMinTotalLength = kMinFrameBytes - kEthernetBytes;
    if (total_length + kEthernetBytes > length || total_length <= kMinTotalLength + pad ||
        LoadBe16(frame + kUdpOffset + udp::kLength) + kIpv4Bytes != total_length ||
        (ip[ipv4::kTos] & ipv4::kEcnMask) == kCe || !Ipv4ChecksumIsValid(ip, address_sum_))
        [[unlikely]] {
      return false;
    }
    const uint32_t last_word = LoadBe32(bth + bth_fields::kAckRequest);
    *message = {.ext = bth + kBthBytes,
                .ext_bytes = total_length - kMinTotalLength - pad,
                .l3_bytes = total_length - kIcrcBytes,
                .psn = Psn(last_word),
                .ack_request = last_word >> 31 != 0,
                .solicited = (bth[bth_fields::kFlags] & bth_fields::kSolicitedBit) != 0};
    return true;
  }
  static Opcode OpcodeOf(const uint8_t* frame) {
    return static_cast<Opcode>(frame[kBthOffset + bth_fields::kOpcode]);
  }

  // Returns true if the frame has these headers and is well-formed; `*packet` is then what
  // ParseRocePacket() would return. Otherwise the frame may be of any kind: call ParseRocePacket()
  // for it. Reads at most `length` bytes. Does not check the ICRC.
  bool Parse(const uint8_t* frame, size_t length, RocePacket* packet) const {
    if (!HasHeaders(frame)) return false;
    const uint8_t* ip = frame + kEthernetBytes;
    const size_t total_length = LoadBe16(ip + ipv4::kTotalLength);
    if (total_length + kEthernetBytes > length ||
        LoadBe16(frame + kUdpOffset + udp::kLength) + kIpv4Bytes != total_length ||
        total_length < kMinFrameBytes - kEthernetBytes || !Ipv4ChecksumIsValid(ip, address_sum_)) {
      return false;
    }
    packet->frame = frame;
    packet->ip_version = 4;
    packet->ecn = ip[ipv4::kTos] & ipv4::kEcnMask;
    packet->l3_offset = kEthernetBytes;
    return ParseTransport(frame, kUdpOffset, total_length - kIpv4Bytes, packet) == ParseResult::kOk;
  }

 private:
  static constexpr size_t kUdpOffset = kEthernetBytes + kIpv4Bytes;
  static constexpr size_t kBthOffset = kUdpOffset + kUdpBytes;
  static constexpr size_t kHeaderBytes = kBthOffset + kBthBytes;
  static constexpr size_t kBlock = sizeof(__m128i);
  static constexpr size_t kBlocks = (kHeaderBytes + kBlock - 1) / kBlock;
  // The last block overlaps the one before it, so that no block extends beyond the headers.
  static constexpr size_t BlockOffset(size_t i) {
    return i + 1 < kBlocks ? i * kBlock : kHeaderBytes - kBlock;
  }

  // Zero in the bits that vary between packets of a flow.
  using Mask = std::array<uint8_t, kHeaderBytes>;
  static constexpr Mask kMask = [] {
    Mask mask{};
    for (uint8_t& byte : mask) byte = 0xFF;
    const auto differ = [&mask](size_t offset, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) mask[offset + i] = 0;
    };
    differ(kEthernetBytes + ipv4::kTos, 1);
    differ(kEthernetBytes + ipv4::kTotalLength, 2);
    differ(kEthernetBytes + ipv4::kIdentification, 2);
    // Compared: More Fragments and the offset. Not compared: Don't Fragment.
    mask[kEthernetBytes + ipv4::kFragment] = 0x3F;
    differ(kEthernetBytes + ipv4::kTtl, 1);
    differ(kEthernetBytes + ipv4::kChecksum, 2);
    differ(kUdpOffset + udp::kSourcePort, 2);
    differ(kUdpOffset + udp::kLength, 2);
    differ(kBthOffset + bth_fields::kOpcode, 1);
    mask[kBthOffset + bth_fields::kFlags] = bth_fields::kVersionMask;
    differ(kBthOffset + bth_fields::kCongestion, 1);
    differ(kBthOffset + bth_fields::kAckRequest, 1);
    differ(kBthOffset + bth_fields::kPsn, 3);
    return mask;
  }();
  static_assert(kIpv4MoreFragments == 0x2000 && kIpv4FragmentOffsetMask == 0x1FFF);

  [[gnu::always_inline]] bool HasHeaders(const uint8_t* frame) const {
    __m128i same = _mm_cmpeq_epi8(Masked(frame, 0), blocks_[0]);
    for (size_t i = 1; i < kBlocks; ++i) {
      same = _mm_and_si128(same, _mm_cmpeq_epi8(Masked(frame, i), blocks_[i]));
    }
    return _mm_movemask_epi8(same) == 0xFFFF || Planted(Fault::kHeadersUnchecked);
  }
  static __m128i Load(const uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static __m128i Masked(const uint8_t* frame, size_t i) {
    return _mm_and_si128(Load(frame + BlockOffset(i)), Load(kMask.data() + BlockOffset(i)));
  }

  __m128i blocks_[kBlocks] = {};
  uint64_t address_sum_ = 0;  // of the IP header's checksum
};

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_EXPECTED_HEADERS_H_
