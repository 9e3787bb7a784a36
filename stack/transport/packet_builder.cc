#include "stack/transport/packet_builder.h"

#include <rte_mbuf.h>

#include <cstring>

#include "stack/base/byte_order.h"
#include "stack/wire/icrc.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {
namespace {

constexpr uint16_t kIpOffset = 14;
constexpr uint16_t kUdpOffset = kIpOffset + 20;
constexpr uint16_t kBthOffset = kUdpOffset + 8;
constexpr uint8_t kProtocolUdp = 17;

constexpr uint16_t kIpLength = kIpOffset + 2;
constexpr uint16_t kIpIdentification = kIpOffset + 4;
constexpr uint16_t kIpChecksum = kIpOffset + 10;
constexpr uint16_t kUdpLength = kUdpOffset + 4;

uint16_t FoldChecksum(uint32_t sum) {
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

}  // namespace

uint16_t FlowSourcePort(Qpn local, Qpn remote) {
  uint64_t v = static_cast<uint64_t>(local.value) * remote.value;
  v ^= v >> 20;
  v ^= v >> 40;
  const auto label = static_cast<uint32_t>(v & 0xFFFFF);
  return static_cast<uint16_t>(((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)) | 0xC000);
}

void PacketBuilder::Reset(const verbs::AddressHandle* path, Qpn local, Qpn remote) {
  path_ = path;
  uint8_t* t = template_;
  std::memcpy(t + 6, path->source_mac.data(), 6);
  StoreBe16(t + 12, 0x0800);
  uint8_t* ip = t + kIpOffset;
  std::memset(ip, 0, 20);
  ip[0] = 0x45;
  ip[1] = path->traffic_class;
  StoreBe16(ip + 6, 0x4000);  // don't fragment: the ICRC covers the whole packet
  ip[8] = path->hop_limit;
  ip[9] = kProtocolUdp;
  StoreBe32(ip + 12, path->source.Ipv4());
  StoreBe32(ip + 16, path->destination.Ipv4());
  ip_checksum_base_ = 0;
  for (int i = 0; i < 20; i += 2) ip_checksum_base_ += LoadBe16(ip + i);
  StoreBe16(t + kUdpOffset, FlowSourcePort(local, remote));
  StoreBe16(t + kUdpOffset + 2, wire::kRocePort);
  StoreBe16(t + kUdpOffset + 6, 0);  // no checksum: the ICRC is stronger
  wire::EmitBth(wire::Bth{.dest_qpn = remote}, t + kBthOffset);
  LoadLink();
}

void PacketBuilder::LoadLink() {
  link_word_ = path_->link->word();
  const verbs::LinkAddress::Value link = path_->link->Load();
  std::memcpy(template_, link.mac.data(), 6);
}

bool PacketBuilder::Begin(const Spec& spec, PollContext& context) {
  frame_ = context.egress.Allocate();
  if (frame_ == nullptr) return false;
  if (path_->link->word() != link_word_) [[unlikely]]
    LoadLink();

  pad_ = static_cast<uint8_t>(-spec.payload_bytes & 3);
  ext_bytes_ = spec.ext_bytes;
  const auto transport_bytes = static_cast<uint16_t>(wire::kBthBytes + spec.ext_bytes +
                                                     spec.payload_bytes + pad_ + wire::kIcrcBytes);
  auto* p = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame_, kBthOffset + transport_bytes));
  if (p == nullptr) [[unlikely]] {  // a pool whose buffers are smaller than the path MTU needs
    context.counters.Count(Drop::kNoBuffer);
    Abandon();
    return false;
  }
  std::memcpy(p, template_, kHeaderBytes);
  const uint16_t ip_length = 20 + 8 + transport_bytes;
  const uint16_t identification = identification_++;
  StoreBe16(p + kIpLength, ip_length);
  StoreBe16(p + kIpIdentification, identification);
  StoreBe16(p + kIpChecksum, FoldChecksum(ip_checksum_base_ + ip_length + identification));
  StoreBe16(p + kUdpLength, 8 + transport_bytes);
  uint8_t* bth = p + kBthOffset;
  bth[0] = static_cast<uint8_t>(spec.opcode);
  bth[1] = static_cast<uint8_t>((spec.solicited ? 0x80 : 0) | pad_ << 4);
  StoreBe32(bth + 8, (spec.ack_request ? 0x80000000u : 0u) | spec.psn.value());
  ext_ = p + kHeaderBytes;
  cursor_ = ext_ + spec.ext_bytes;
  return true;
}

void PacketBuilder::EndHeaders() {
  crc_ = wire::IcrcOverHeaders(ext_ - kHeaderBytes + kIpOffset, 4);
  if (ext_bytes_ != 0) crc_ = wire::Crc32(crc_, ext_, ext_bytes_);
}

void PacketBuilder::Copy(const uint8_t* source, uint32_t bytes) {
  crc_ = wire::Crc32Copy(crc_, cursor_, source, bytes);
  cursor_ += bytes;
}

void PacketBuilder::Finish(PollContext& context) {
  if (pad_ != 0) {
    static constexpr uint8_t kZeroes[4] = {};
    Copy(kZeroes, pad_);
  }
  wire::EmitIcrc(crc_, cursor_);
  rte_mbuf* frame = frame_;
  frame_ = nullptr;
  if (path_->link->Load().resolved) [[likely]] {
    context.egress.Push(frame, context.now_ns);
  } else if (context.resolver != nullptr) {
    context.resolver->SendWhenResolved(path_->link, frame, context);
  } else {
    context.counters.Count(Drop::kUnresolved);
    rte_pktmbuf_free(frame);
  }
}

void PacketBuilder::Abandon() {
  rte_pktmbuf_free(frame_);
  frame_ = nullptr;
}

}  // namespace pollux::transport
