#include "stack/wire/roce_packet.h"

#include <cstring>

#include "stack/base/byte_order.h"

namespace pollux::wire {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kVlanBytes = 4;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kUdpBytes = 8;
constexpr uint16_t kEtherTypeVlan = 0x8100;
constexpr uint16_t kEtherTypeIpv4 = 0x0800;
constexpr uint16_t kEtherTypeIpv6 = 0x86DD;
constexpr uint8_t kProtocolUdp = 17;

uint32_t SumWords(const uint8_t* p, size_t n) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < n; i += 2) sum += LoadBe16(p + i);
  if (n % 2 != 0) sum += static_cast<uint32_t>(p[n - 1]) << 8;
  return sum;
}

uint16_t Fold(uint32_t sum) {
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

struct L4 {
  uint16_t udp_offset;
  uint16_t bytes;  // of the UDP datagram as the IP header says
};

ParseResult ParseIpv4(const uint8_t* frame, size_t length, RocePacket* p, L4* l4) {
  if (length < p->l3_offset + kIpv4Bytes) return ParseResult::kTruncated;
  const uint8_t* ip = frame + p->l3_offset;
  if (ip[9] != kProtocolUdp || ip[0] >> 4 != 4) return ParseResult::kNotRoce;
  const size_t header = static_cast<size_t>(ip[0] & 0x0F) * 4;
  const uint16_t total = LoadBe16(ip + 2);
  const uint16_t fragment = LoadBe16(ip + 6);
  if (header < kIpv4Bytes || total < header || length < p->l3_offset + size_t{total}) {
    return ParseResult::kTruncated;
  }
  // A later fragment has no UDP header to tell whose it is; the first one of ours is refused below.
  if ((fragment & 0x1FFF) != 0) return ParseResult::kNotRoce;
  if (total < header + kUdpBytes) return ParseResult::kNotRoce;
  if (LoadBe16(ip + header + 2) != kRocePort) return ParseResult::kNotRoce;
  // The ICRC is defined without options and on whole packets.
  if (header != kIpv4Bytes || (fragment & 0x2000) != 0 || Fold(SumWords(ip, header)) != 0xFFFF) {
    return ParseResult::kBadIpHeader;
  }
  p->ip_version = 4;
  p->ecn = ip[1] & 3;
  l4->udp_offset = static_cast<uint16_t>(p->l3_offset + header);
  l4->bytes = static_cast<uint16_t>(total - header);
  return ParseResult::kOk;
}

ParseResult ParseIpv6(const uint8_t* frame, size_t length, RocePacket* p, L4* l4) {
  if (length < p->l3_offset + kIpv6Bytes) return ParseResult::kTruncated;
  const uint8_t* ip = frame + p->l3_offset;
  if (ip[6] != kProtocolUdp || ip[0] >> 4 != 6) return ParseResult::kNotRoce;
  const uint16_t payload = LoadBe16(ip + 4);
  if (length < p->l3_offset + kIpv6Bytes + payload) return ParseResult::kTruncated;
  if (payload < kUdpBytes) return ParseResult::kNotRoce;
  if (LoadBe16(ip + kIpv6Bytes + 2) != kRocePort) return ParseResult::kNotRoce;
  p->ip_version = 6;
  p->ecn = (ip[1] >> 4) & 3;
  l4->udp_offset = static_cast<uint16_t>(p->l3_offset + kIpv6Bytes);
  l4->bytes = payload;
  return ParseResult::kOk;
}

bool UdpChecksumIsValid(const uint8_t* frame, const RocePacket& p, const L4& l4) {
  const uint8_t* ip = frame + p.l3_offset;
  uint32_t sum = p.ip_version == 4 ? SumWords(ip + 12, 8) : SumWords(ip + 8, 32);
  sum += kProtocolUdp + l4.bytes + SumWords(frame + l4.udp_offset, l4.bytes);
  return Fold(sum) == 0xFFFF;
}

}  // namespace

Gid RocePacket::source() const {
  Gid gid;
  const uint8_t* ip = frame + l3_offset;
  if (ip_version == 4) return Gid::FromIpv4(LoadBe32(ip + 12));
  std::memcpy(gid.raw.data(), ip + 8, 16);
  return gid;
}

Gid RocePacket::destination() const {
  Gid gid;
  const uint8_t* ip = frame + l3_offset;
  if (ip_version == 4) return Gid::FromIpv4(LoadBe32(ip + 16));
  std::memcpy(gid.raw.data(), ip + 24, 16);
  return gid;
}

ParseResult ParseRocePacket(const uint8_t* frame, size_t length, RocePacket* packet) {
  if (length < kEthernetBytes) return ParseResult::kTruncated;
  // Offsets are 16 bits wide; no Ethernet frame reaches beyond them.
  if (length > 0xFFFF) return ParseResult::kNotRoce;
  RocePacket p;
  p.frame = frame;
  p.l3_offset = kEthernetBytes;
  uint16_t ether_type = LoadBe16(frame + 12);
  if (ether_type == kEtherTypeVlan) {
    if (length < kEthernetBytes + kVlanBytes) return ParseResult::kTruncated;
    ether_type = LoadBe16(frame + 16);
    p.l3_offset += kVlanBytes;
  }
  L4 l4;
  ParseResult result = ParseResult::kNotRoce;
  if (ether_type == kEtherTypeIpv4) result = ParseIpv4(frame, length, &p, &l4);
  if (ether_type == kEtherTypeIpv6) result = ParseIpv6(frame, length, &p, &l4);
  if (result != ParseResult::kOk) return result;

  const uint8_t* udp = frame + l4.udp_offset;
  if (LoadBe16(udp + 4) != l4.bytes) return ParseResult::kBadUdpLength;
  if (LoadBe16(udp + 6) != 0 && !UdpChecksumIsValid(frame, p, l4)) {
    return ParseResult::kBadUdpChecksum;
  }
  if (l4.bytes < kUdpBytes + kBthBytes + kIcrcBytes) return ParseResult::kTruncated;
  p.bth_offset = static_cast<uint16_t>(l4.udp_offset + kUdpBytes);
  p.ext_offset = static_cast<uint16_t>(p.bth_offset + kBthBytes);
  p.icrc_offset = static_cast<uint16_t>(l4.udp_offset + l4.bytes - kIcrcBytes);
  p.bth = ParseBth(frame + p.bth_offset);
  if (p.bth.version != 0) return ParseResult::kBadVersion;
  p.info = FindOpcode(frame[p.bth_offset]);
  if (p.info == nullptr) return ParseResult::kUnknownOpcode;
  p.payload_offset = static_cast<uint16_t>(p.ext_offset + p.info->header_bytes);
  if (p.payload_offset > p.icrc_offset) return ParseResult::kTruncated;
  const auto rest = static_cast<uint16_t>(p.icrc_offset - p.payload_offset);
  if (p.bth.pad > rest || (!p.info->has_payload && rest != 0)) return ParseResult::kBadPad;
  p.payload_length = rest - p.bth.pad;
  *packet = p;
  return ParseResult::kOk;
}

}  // namespace pollux::wire
