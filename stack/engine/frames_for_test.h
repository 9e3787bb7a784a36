// Frames that a port shared by workers may receive. For tests.
#ifndef POLLUX_STACK_ENGINE_FRAMES_FOR_TEST_H_
#define POLLUX_STACK_ENGINE_FRAMES_FOR_TEST_H_

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/base/types.h"
#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/roce_packet.h"
#include "stack/wire/udp.h"

namespace pollux::engine {

using Bytes = std::vector<uint8_t>;

inline constexpr uint32_t kSourceForTest = 0xC0000202;
inline constexpr uint32_t kDestinationForTest = 0xC0000201;
inline constexpr size_t kDethBytes = 8;

struct FrameKind {
  bool ipv6 = false;
  bool vlan = false;
};

// Ethernet and IP headers before `l4`, whose protocol number is `protocol`.
inline Bytes IpFrame(uint8_t protocol, const Bytes& l4, FrameKind kind = {}) {
  const wire::EthernetHeader ethernet{
      .destination = {2, 0, 0, 0, 0, 1},
      .source = {2, 0, 0, 0, 0, 2},
      .vlan_tci = kind.vlan ? std::optional<uint16_t>(7) : std::nullopt,
      .ether_type = kind.ipv6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4};
  const size_t ip_bytes = kind.ipv6 ? wire::kIpv6Bytes : wire::kIpv4Bytes;
  Bytes frame(ethernet.bytes() + ip_bytes);
  wire::EmitEthernet(ethernet, frame.data());
  uint8_t* ip = frame.data() + ethernet.bytes();
  if (kind.ipv6) {
    wire::EmitIpv6({.payload_length = static_cast<uint16_t>(l4.size()), .next_header = protocol},
                   ip);
  } else {
    wire::EmitIpv4({.total_length = static_cast<uint16_t>(wire::kIpv4Bytes + l4.size()),
                    .protocol = protocol,
                    .source = kSourceForTest,
                    .destination = kDestinationForTest},
                   ip);
  }
  frame.insert(frame.end(), l4.begin(), l4.end());
  return frame;
}

// A datagram with `payload`, whose length is a multiple of 4 bytes, and without a valid ICRC.
inline Bytes RoceFrame(Qpn qpn, FrameKind kind = {}, const Bytes& payload = {}) {
  Bytes udp(wire::kUdpBytes + wire::kBthBytes + kDethBytes);
  wire::EmitBth({.opcode = wire::Opcode::kUdSendOnly, .dest_qpn = qpn},
                udp.data() + wire::kUdpBytes);
  udp.insert(udp.end(), payload.begin(), payload.end());
  udp.resize(udp.size() + wire::kIcrcBytes);
  wire::EmitUdp({.destination_port = wire::kRocePort, .length = static_cast<uint16_t>(udp.size())},
                udp.data());
  return IpFrame(wire::kIpProtocolUdp, udp, kind);
}

// A frame of a protocol other than IP, with the minimum length on Ethernet.
inline Bytes OtherFrame(uint16_t ether_type, bool vlan = false) {
  Bytes frame(60);
  wire::EmitEthernet({.destination = wire::kBroadcastMac,
                      .source = {2, 0, 0, 0, 0, 2},
                      .vlan_tci = vlan ? std::optional<uint16_t>(7) : std::nullopt,
                      .ether_type = ether_type},
                     frame.data());
  return frame;
}

inline rte_mbuf* MbufOf(const Bytes& bytes, rte_mempool* pool) {
  rte_mbuf* frame = rte_pktmbuf_alloc(pool);
  if (frame == nullptr) return nullptr;
  std::copy(bytes.begin(), bytes.end(),
            rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size())));
  return frame;
}

inline Bytes BytesOf(const rte_mbuf* frame) {
  const auto* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  return {bytes, bytes + frame->data_len};
}

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_FRAMES_FOR_TEST_H_
