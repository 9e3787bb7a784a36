#include "stack/transport/message/packet_builder.h"

#include <rte_mbuf.h>

#include <cstring>

#include "stack/base/byte_order.h"
#include "stack/base/qpn_layout.h"
#include "stack/io/port/source_port_rss.h"
#include "stack/wire/checksum.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {
namespace {

// Where the frame begins so that its payload, `before` bytes on, does.
constexpr uint16_t OffsetOfLine(size_t before) {
  constexpr size_t kLine = RTE_CACHE_LINE_SIZE;
  return static_cast<uint16_t>((RTE_PKTMBUF_HEADROOM + before + kLine - 1) / kLine * kLine -
                               before);
}

}  // namespace

uint16_t FlowSourcePort(const Gid& source, Qpn local, Qpn remote) {
  uint64_t v = static_cast<uint64_t>(local.value) * remote.value;
  v ^= v >> 20;
  v ^= v >> 40;
  const auto label = static_cast<uint32_t>(v & 0xFFFFF);
  static_assert(io::kRssPortBits == QpnLayout{}.worker_bits);
  constexpr uint32_t kSortedBy = (1 << io::kRssPortBits) - 1;
  const uint32_t spread = ((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)) & ~kSortedBy;
  // In the GID of an IPv4 address the byte is 0.
  const uint32_t worker =
      (remote.value >> (24 - io::kRssPortBits)) ^ source.raw[io::kRssAddressByte];
  return static_cast<uint16_t>(spread | (worker & kSortedBy) | 0xC000);
}

void PacketBuilder::Reset(const verbs::AddressHandle* path, Qpn local, Qpn remote,
                          const PacketMarks& marks) {
  path_ = path;
  data_ecn_ = marks.data_ecn;
  ip_version_ = path->destination.IsIpv4() ? 4 : 6;
  const wire::EthernetHeader ethernet{
      .vlan_tci = path->vlan_tci,
      .ether_type = ip_version_ == 4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6};
  ip_offset_ = static_cast<uint8_t>(wire::EmitEthernet(ethernet, template_));
  EmitIp();
  uint8_t* udp = template_ + udp_offset_;
  StoreBe16(udp + wire::udp::kSourcePort, FlowSourcePort(path->source, local, remote));
  StoreBe16(udp + wire::udp::kDestinationPort, wire::kRocePort);
  // No checksum, over IPv6 neither: the ICRC is stronger.
  StoreBe16(udp + wire::udp::kChecksum, 0);
  wire::EmitBth(wire::Bth{.becn = marks.becn, .dest_qpn = remote}, udp + wire::kUdpBytes);
  header_bytes_ = static_cast<uint8_t>(udp_offset_ + wire::kUdpBytes + wire::kBthBytes);
  LoadLink();
}

void PacketBuilder::EmitIp() {
  uint8_t* ip = template_ + ip_offset_;
  // Where the field is ours it is clear in the template.
  const auto traffic_class = static_cast<uint8_t>(
      data_ecn_ != 0 ? path_->traffic_class & ~wire::ipv4::kEcnMask : path_->traffic_class);
  if (ip_version_ == 6) {
    wire::EmitIpv6({.traffic_class = traffic_class,
                    .flow_label = path_->flow_label,
                    .next_header = wire::kIpProtocolUdp,
                    .hop_limit = path_->hop_limit,
                    .source = path_->source,
                    .destination = path_->destination},
                   ip);
    udp_offset_ = static_cast<uint8_t>(ip_offset_ + wire::kIpv6Bytes);
    return;
  }
  // Not to be fragmented: the ICRC covers the whole packet.
  wire::EmitIpv4({.tos = traffic_class,
                  .fragment = wire::kIpv4DontFragment,
                  .ttl = path_->hop_limit,
                  .protocol = wire::kIpProtocolUdp,
                  .source = path_->source.Ipv4(),
                  .destination = path_->destination.Ipv4()},
                 ip);
  udp_offset_ = static_cast<uint8_t>(ip_offset_ + wire::kIpv4Bytes);
  StoreBe16(ip + wire::ipv4::kChecksum, 0);
  ip_checksum_base_ = 0;
  for (size_t i = 0; i < wire::kIpv4Bytes; i += 2) ip_checksum_base_ += LoadBe16(ip + i);
}

void PacketBuilder::LoadLink() {
  link_word_ = path_->link->word();
  std::memcpy(template_, path_->link->Load().mac.data(), 6);
  std::memcpy(template_ + 6, path_->own_link->Load().mac.data(), 6);
}

// The frame of the next packet, `data_offset` bytes into its buffer unless that has too little
// room, with room for everything behind the UDP header; null: none.
[[gnu::always_inline]] inline uint8_t* PacketBuilder::Append(uint16_t transport_bytes,
                                                             uint16_t data_offset,
                                                             PollContext& context) {
  frame_ = context.egress.Allocate();
  if (frame_ == nullptr) [[unlikely]] {
    if (diagnostics_ != nullptr) diagnostics_->NotSent();
    return nullptr;
  }
  const auto bytes = static_cast<uint16_t>(udp_offset_ + wire::kUdpBytes + transport_bytes);
  if (bytes > frame_->buf_len - data_offset) [[unlikely]] {
    // A pool whose buffers are smaller than the path MTU needs.
    if (bytes > frame_->buf_len - RTE_PKTMBUF_HEADROOM) {
      context.counters.Count(Drop::kNoBuffer);
      ++context.counters.send_err;
      if (diagnostics_ != nullptr) diagnostics_->NotSent();
      Abandon();
      return nullptr;
    }
    data_offset = RTE_PKTMBUF_HEADROOM;
  }
  if (data_offset != RTE_PKTMBUF_HEADROOM) frame_->data_off = data_offset;
  frame_->pkt_len = frame_->data_len = bytes;
  if (path_->link->word() != link_word_) [[unlikely]]
    LoadLink();
  return static_cast<uint8_t*>(frame_->buf_addr) + data_offset;
}

// Everything up to the BTH; returns what comes behind it.
[[gnu::always_inline]] inline uint8_t* PacketBuilder::EmitHeaders(const Spec& spec, uint8_t pad,
                                                                  uint16_t transport_bytes,
                                                                  uint8_t* to) {
  const auto udp_length = static_cast<uint16_t>(wire::kUdpBytes + transport_bytes);
  const uint8_t ecn = spec.payload_bytes != 0 ? data_ecn_ : 0;
  uint8_t* ip = to + ip_offset_;
  uint8_t* udp = to + udp_offset_;
  if (header_bytes_ == kPlainIpv4Bytes) [[likely]] {
    std::memcpy(to, template_, kPlainIpv4Bytes);
    ip = to + wire::kEthernetBytes;
    udp = ip + wire::kIpv4Bytes;
  } else {
    std::memcpy(to, template_, header_bytes_);
  }
  if (ip_version_ == 4) {
    const auto ip_length = static_cast<uint16_t>(wire::kIpv4Bytes + udp_length);
    const uint16_t identification = identification_++;
    StoreBe16(ip + wire::ipv4::kTotalLength, ip_length);
    StoreBe16(ip + wire::ipv4::kIdentification, identification);
    ip[wire::ipv4::kTos] |= ecn;
    StoreBe16(ip + wire::ipv4::kChecksum,
              wire::ChecksumFold(ip_checksum_base_ + ecn + ip_length + identification));
  } else {
    ip[wire::ipv6::kVersionClassFlow + 1] |= static_cast<uint8_t>(ecn << 4);
    StoreBe16(ip + wire::ipv6::kPayloadLength, udp_length);
  }
  StoreBe16(udp + wire::udp::kLength, udp_length);
  uint8_t* bth = udp + wire::kUdpBytes;
  bth[0] = static_cast<uint8_t>(spec.opcode);
  bth[1] = static_cast<uint8_t>((spec.solicited ? 0x80 : 0) | pad << 4);
  StoreBe32(bth + 8, (spec.ack_request ? 0x80000000u : 0u) | spec.psn.value());
  return bth + wire::kBthBytes;
}

[[gnu::always_inline]] inline void PacketBuilder::Close(uint8_t* icrc, const uint8_t* l3) const {
  wire::EmitIcrc(wire::Icrc(l3, ip_version_, static_cast<size_t>(icrc - l3)), icrc);
}

[[gnu::always_inline]] inline void PacketBuilder::HandOn(const Spec& spec, uint8_t syndrome,
                                                         PollContext& context) {
  if (diagnostics_ != nullptr) [[likely]]
    diagnostics_->Sent(spec.opcode, spec.psn, spec.payload_bytes, syndrome);
  rte_mbuf* frame = frame_;
  frame_ = nullptr;
  if (path_->link->resolved()) [[likely]] {
    context.egress.Push(frame, context.now_ns);
  } else if (context.resolver != nullptr) {
    context.resolver->SendWhenResolved(path_->link, frame, context);
  } else {
    context.counters.Count(Drop::kUnresolved);
    ++context.counters.send_err;
    if (diagnostics_ != nullptr) diagnostics_->NotSent();
    rte_pktmbuf_free(frame);
  }
}

bool PacketBuilder::Send(const Spec& spec, const uint8_t* payload, PollContext& context) {
  if (spec.payload_bytes >= kLongPayload) [[unlikely]] {
    if (!Begin(spec, context)) return false;
    Copy(payload, spec.payload_bytes);
    Finish(context);
    return true;
  }
  const auto pad = static_cast<uint8_t>(-spec.payload_bytes & 3);
  const auto transport_bytes =
      static_cast<uint16_t>(wire::kBthBytes + spec.payload_bytes + pad + wire::kIcrcBytes);
  uint8_t* p = Append(transport_bytes, RTE_PKTMBUF_HEADROOM, context);
  if (p == nullptr) return false;
  uint8_t* end = EmitHeaders(spec, pad, transport_bytes, p);
  std::memcpy(end, payload, spec.payload_bytes);
  end += spec.payload_bytes;
  // The pad: its place is written whole, and the ICRC comes over what lies beyond.
  StoreBe32(end, 0);
  Close(end + pad, p + ip_offset_);
  HandOn(spec, 0, context);
  return true;
}

bool PacketBuilder::Begin(const Spec& spec, PollContext& context) {
  pad_ = static_cast<uint8_t>(-spec.payload_bytes & 3);
  spec_ = spec;
  const auto transport_bytes = static_cast<uint16_t>(wire::kBthBytes + spec.ext_bytes +
                                                     spec.payload_bytes + pad_ + wire::kIcrcBytes);
  uint16_t data_offset = RTE_PKTMBUF_HEADROOM;
  if (spec.payload_bytes >= kLongPayload) [[unlikely]] {
    data_offset = OffsetOfLine(header_bytes_ + size_t{spec.ext_bytes});
  }
  uint8_t* p = Append(transport_bytes, data_offset, context);
  if (p == nullptr) return false;
  ext_ = EmitHeaders(spec, pad_, transport_bytes, p);
  cursor_ = ext_ + spec.ext_bytes;
  return true;
}

void PacketBuilder::Copy(const uint8_t* source, uint32_t bytes) {
  std::memcpy(cursor_, source, bytes);
  cursor_ += bytes;
}

void PacketBuilder::Finish(PollContext& context) {
  // As in Send().
  StoreBe32(cursor_, 0);
  Close(cursor_ + pad_, ext_ - header_bytes_ + ip_offset_);
  HandOn(spec_, spec_.opcode == wire::Opcode::kRcAcknowledge ? *ext_ : uint8_t{0}, context);
}

void PacketBuilder::Abandon() {
  rte_pktmbuf_free(frame_);
  frame_ = nullptr;
}

}  // namespace pollux::transport
