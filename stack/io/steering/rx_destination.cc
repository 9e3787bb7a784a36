#include "stack/io/steering/rx_destination.h"

#include <rte_mbuf.h>

#include <optional>

#include "stack/base/byte_order.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/roce_packet.h"

namespace pollux::io {
namespace {

// What stands after Ethernet header and tag.
struct Network {
  uint16_t ether_type = 0;
  const uint8_t* bytes = nullptr;
  size_t length = 0;
};

std::optional<Network> NetworkOf(const uint8_t* frame, size_t length) {
  size_t offset = wire::kEthernetBytes;
  if (length < offset) return std::nullopt;
  uint16_t ether_type = LoadBe16(frame + wire::ethernet::kType);
  if (ether_type == wire::kEtherTypeVlan) {
    offset += wire::kVlanTagBytes;
    if (length < offset) return std::nullopt;
    ether_type = LoadBe16(frame + wire::ethernet::kVlanInnerType);
  }
  return Network{.ether_type = ether_type, .bytes = frame + offset, .length = length - offset};
}

// ARP, neighbour advertisements, IGMP and MLD. Solicitations are for who answers them.
bool IsLinkTalk(const Network& network) {
  const uint8_t* p = network.bytes;
  switch (network.ether_type) {
    case wire::kEtherTypeArp:
      return true;
    case wire::kEtherTypeIpv4:
      return network.length >= wire::kIpv4Bytes &&
             p[wire::ipv4::kProtocol] == wire::kIpProtocolIgmp;
    case wire::kEtherTypeIpv6: {
      if (network.length <= wire::kIpv6Bytes) return false;
      const uint8_t next = p[wire::ipv6::kNextHeader];
      // MLD, and little else, stands behind such a header.
      if (next == wire::kIpProtocolHopByHop) return true;
      return next == wire::kIpProtocolIcmpV6 &&
             p[wire::kIpv6Bytes + wire::icmpv6::kType] == wire::kIcmpv6NeighbourAdvertisement;
    }
    default:
      return false;
  }
}

}  // namespace

RxDestination RxClassifier::Find(const rte_mbuf& frame) const {
  if (frame.nb_segs != 1) return {};
  const uint8_t* bytes = rte_pktmbuf_mtod(&frame, const uint8_t*);
  const size_t length = frame.data_len;
  if (!wire::IsRoceFrame(bytes, length)) [[unlikely]]
    return FindOther(bytes, length);
  const std::optional<Qpn> qpn = wire::DestinationQpn(bytes, length);
  if (!qpn) return {};
  if (*qpn == kMulticastQpn) return {.kind = RxDestination::Kind::kEveryone};
  if (*qpn == kGsiQpn) return FindMad(bytes, length);
  const uint32_t worker = layout.worker(*qpn);
  if (worker >= workers || !layout.Holds(*qpn)) return {};
  return {.kind = RxDestination::Kind::kWorker, .worker = worker};
}

RxDestination RxClassifier::FindOther(const uint8_t* frame, size_t length) const {
  if (others == Others::kLeft) return {.is_roce = false};
  const std::optional<Network> network = NetworkOf(frame, length);
  const bool everyone = others == Others::kAnswered && network && IsLinkTalk(*network);
  return {.kind = everyone ? RxDestination::Kind::kEveryone : RxDestination::Kind::kWorker,
          .is_roce = false};
}

RxDestination RxClassifier::FindMad(const uint8_t* frame, size_t length) const {
  if (gsi_owner == nullptr) return {.kind = RxDestination::Kind::kWorker};
  wire::RocePacket packet;
  if (wire::ParseRocePacket(frame, length, &packet) != wire::ParseResult::kOk) return {};
  const uint32_t worker =
      gsi_owner({packet.payload(), packet.payload_length}, packet.source(), workers);
  return {.kind = RxDestination::Kind::kWorker, .worker = worker < workers ? worker : 0};
}

}  // namespace pollux::io
