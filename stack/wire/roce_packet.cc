#include "stack/wire/roce_packet.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "stack/base/byte_order.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/udp.h"

namespace pollux::wire {
namespace {

// Where the UDP datagram lies, as the IP header has it.
struct Datagram {
  size_t offset = 0;
  size_t length = 0;
};

bool IsRocePort(const uint8_t* udp) { return LoadBe16(udp + udp::kDestinationPort) == kRocePort; }

// Foreign datagrams, damaged ones too, are kNotRoce: they are stack/ip's to judge.
ParseResult FindDatagramIpv4(const uint8_t* ip, size_t length, RocePacket* packet,
                             Datagram* datagram) {
  if (length < kIpv4Bytes) return ParseResult::kTruncated;
  const size_t header_bytes = size_t{4} * (ip[ipv4::kVersionIhl] & 0x0F);
  const uint16_t fragment = LoadBe16(ip + ipv4::kFragment);
  if (ip[ipv4::kProtocol] != kIpProtocolUdp || ip[ipv4::kVersionIhl] >> 4 != 4 ||
      header_bytes < kIpv4Bytes) {
    return ParseResult::kNotRoce;
  }
  // Only the first fragment has a port to tell whose it is.
  if ((fragment & kIpv4FragmentOffsetMask) != 0) return ParseResult::kNotRoce;
  if (length < header_bytes + kUdpBytes) return ParseResult::kTruncated;
  if (!IsRocePort(ip + header_bytes)) return ParseResult::kNotRoce;

  if (header_bytes != kIpv4Bytes || (fragment & kIpv4MoreFragments) != 0 ||
      !Ipv4ChecksumIsValid(ip)) {
    return ParseResult::kBadIpHeader;
  }
  const size_t total_length = LoadBe16(ip + ipv4::kTotalLength);
  if (total_length > length || total_length < kIpv4Bytes + kUdpBytes) {
    return ParseResult::kTruncated;
  }
  packet->ecn = ip[ipv4::kTos] & ipv4::kEcnMask;
  datagram->offset = kIpv4Bytes;
  datagram->length = total_length - kIpv4Bytes;
  return ParseResult::kOk;
}

ParseResult FindDatagramIpv6(const uint8_t* ip, size_t length, RocePacket* packet,
                             Datagram* datagram) {
  if (length < kIpv6Bytes) return ParseResult::kTruncated;
  if (ip[ipv6::kNextHeader] != kIpProtocolUdp || ip[ipv6::kVersionClassFlow] >> 4 != 6) {
    return ParseResult::kNotRoce;
  }
  if (length < kIpv6Bytes + kUdpBytes) return ParseResult::kTruncated;
  if (!IsRocePort(ip + kIpv6Bytes)) return ParseResult::kNotRoce;
  const size_t payload_length = LoadBe16(ip + ipv6::kPayloadLength);
  if (payload_length > length - kIpv6Bytes || payload_length < kUdpBytes) {
    return ParseResult::kTruncated;
  }
  packet->ecn = ip[ipv6::kVersionClassFlow + 1] >> 4 & ipv4::kEcnMask;
  datagram->offset = kIpv6Bytes;
  datagram->length = payload_length;
  return ParseResult::kOk;
}

ParseResult FindDatagram(const uint8_t* frame, size_t length, RocePacket* packet,
                         Datagram* datagram) {
  size_t l3_offset = kEthernetBytes;
  if (length < l3_offset) return ParseResult::kTruncated;
  uint16_t ether_type = LoadBe16(frame + ethernet::kType);
  if (ether_type == kEtherTypeVlan) {
    l3_offset += kVlanTagBytes;
    if (length < l3_offset) return ParseResult::kTruncated;
    ether_type = LoadBe16(frame + ethernet::kVlanInnerType);
  }
  const uint8_t* l3 = frame + l3_offset;
  ParseResult result = ParseResult::kNotRoce;
  if (ether_type == kEtherTypeIpv4) {
    packet->ip_version = 4;
    result = FindDatagramIpv4(l3, length - l3_offset, packet, datagram);
  } else if (ether_type == kEtherTypeIpv6) {
    packet->ip_version = 6;
    result = FindDatagramIpv6(l3, length - l3_offset, packet, datagram);
  }
  packet->l3_offset = static_cast<uint16_t>(l3_offset);
  datagram->offset += l3_offset;
  return result;
}

ParseResult CheckUdp(const uint8_t* frame, const RocePacket& packet, const Datagram& datagram) {
  const uint8_t* udp = frame + datagram.offset;
  if (LoadBe16(udp + udp::kLength) != datagram.length) return ParseResult::kBadUdpLength;
  // Linux rxe sends no checksum, over IPv6 neither: the ICRC covers more.
  if (LoadBe16(udp + udp::kChecksum) != 0 &&
      !UdpChecksumIsValid(frame + packet.l3_offset, packet.ip_version, udp, datagram.length)) {
    return ParseResult::kBadUdpChecksum;
  }
  return ParseResult::kOk;
}

// Whether it is what nearly every packet is, with nothing to object to up to the UDP header: over
// IPv4 without options, whole, without a tag and without a UDP checksum.
bool IsPlain(const uint8_t* frame, size_t length) {
  if (length < kEthernetBytes + kIpv4Bytes + kUdpBytes) return false;
  const uint8_t* ip = frame + kEthernetBytes;
  const uint8_t* udp = ip + kIpv4Bytes;
  const size_t total_length = LoadBe16(ip + ipv4::kTotalLength);
  constexpr uint16_t kFragmented = kIpv4MoreFragments | kIpv4FragmentOffsetMask;
  return LoadBe16(frame + ethernet::kType) == kEtherTypeIpv4 && ip[ipv4::kVersionIhl] == 0x45 &&
         ip[ipv4::kProtocol] == kIpProtocolUdp &&
         (LoadBe16(ip + ipv4::kFragment) & kFragmented) == 0 && IsRocePort(udp) &&
         LoadBe16(udp + udp::kChecksum) == 0 && total_length <= length - kEthernetBytes &&
         total_length >= kIpv4Bytes + kUdpBytes &&
         LoadBe16(udp + udp::kLength) == total_length - kIpv4Bytes && Ipv4ChecksumIsValid(ip);
}

Gid GidAt(const RocePacket& packet, size_t ipv4_offset, size_t ipv6_offset) {
  const uint8_t* l3 = packet.frame + packet.l3_offset;
  if (packet.ip_version == 4) return Gid::FromIpv4(LoadBe32(l3 + ipv4_offset));
  Gid gid;
  std::copy_n(l3 + ipv6_offset, gid.raw.size(), gid.raw.begin());
  return gid;
}

template <class Word>
Word LoadAs(const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Whether `gid` stands for the four bytes at `address`.
bool IsIpv4At(const Gid& gid, const uint8_t* address) {
  constexpr uint64_t kSecondWord = 0xFFFF0000;  // ::ffff:0:0/96
  return LoadAs<uint64_t>(gid.raw.data()) == 0 &&
         LoadAs<uint64_t>(gid.raw.data() + 8) ==
             (kSecondWord | uint64_t{LoadAs<uint32_t>(address)} << 32);
}

}  // namespace

Gid RocePacket::source() const { return GidAt(*this, ipv4::kSource, ipv6::kSource); }
Gid RocePacket::destination() const { return GidAt(*this, ipv4::kDestination, ipv6::kDestination); }

bool RocePacket::IsBetween(const Gid& source, const Gid& destination) const {
  const uint8_t* l3 = frame + l3_offset;
  if (ip_version == 4) {
    return IsIpv4At(source, l3 + ipv4::kSource) && IsIpv4At(destination, l3 + ipv4::kDestination);
  }
  return std::memcmp(l3 + ipv6::kSource, source.raw.data(), source.raw.size()) == 0 &&
         std::memcmp(l3 + ipv6::kDestination, destination.raw.data(), destination.raw.size()) == 0;
}

const char* ParseResultName(ParseResult result) {
  switch (result) {
    case ParseResult::kOk:
      return "ok";
    case ParseResult::kNotRoce:
      return "not RoCE";
    case ParseResult::kTruncated:
      return "truncated";
    case ParseResult::kBadIpHeader:
      return "bad IP header";
    case ParseResult::kBadUdpLength:
      return "bad UDP length";
    case ParseResult::kBadUdpChecksum:
      return "bad UDP checksum";
    case ParseResult::kBadVersion:
      return "bad transport version";
    case ParseResult::kUnknownOpcode:
      return "unknown opcode";
    case ParseResult::kBadPad:
      return "bad pad count or length";
  }
  return "?";
}

bool IsRoceFrame(const uint8_t* frame, size_t length) {
  if (length > std::numeric_limits<uint16_t>::max()) return false;
  RocePacket packet;
  Datagram datagram;
  return FindDatagram(frame, length, &packet, &datagram) != ParseResult::kNotRoce;
}

std::optional<Qpn> DestinationQpn(const uint8_t* frame, size_t length) {
  if (length < kEthernetBytes + kVlanTagBytes) return std::nullopt;
  const bool tagged = LoadBe16(frame + ethernet::kType) == kEtherTypeVlan;
  const uint16_t ether_type =
      LoadBe16(frame + (tagged ? ethernet::kVlanInnerType : ethernet::kType));
  // Packets with IPv4 options are dropped later.
  const size_t bth = kEthernetBytes + (tagged ? kVlanTagBytes : 0) +
                     (ether_type == kEtherTypeIpv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
  if (length < bth + kBthBytes) return std::nullopt;
  return ParseBth(frame + bth).dest_qpn;
}

ParseResult ParseRocePacket(const uint8_t* frame, size_t length, RocePacket* packet) {
  // A longer buffer is no Ethernet frame, and its offsets would not fit the view.
  if (length > std::numeric_limits<uint16_t>::max()) return ParseResult::kNotRoce;
  packet->frame = frame;
  if (IsPlain(frame, length)) [[likely]] {
    const uint8_t* ip = frame + kEthernetBytes;
    packet->ip_version = 4;
    packet->ecn = ip[ipv4::kTos] & ipv4::kEcnMask;
    packet->l3_offset = kEthernetBytes;
    const size_t datagram_bytes = LoadBe16(ip + ipv4::kTotalLength) - kIpv4Bytes;
    return ParseTransport(frame, kEthernetBytes + kIpv4Bytes, datagram_bytes, packet);
  }
  Datagram datagram;
  ParseResult result = FindDatagram(frame, length, packet, &datagram);
  if (result != ParseResult::kOk) return result;
  result = CheckUdp(frame, *packet, datagram);
  if (result != ParseResult::kOk) return result;
  return ParseTransport(frame, datagram.offset, datagram.length, packet);
}

}  // namespace pollux::wire
