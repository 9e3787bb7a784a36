#include "stack/transport/congestion/notification_point.h"

#include <cstring>
#include <optional>

#include "stack/transport/message/packet_builder.h"
#include "stack/verbs/address_handle.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"

namespace pollux::transport {
namespace {

constexpr uint8_t kReservedBytes = 16;  // of zeroes, after the BTH
constexpr uint8_t kHopLimit = 64;

}  // namespace

void NotificationPoint::OnMarked(const wire::RocePacket& packet, Qpn local, Qpn remote,
                                 PollContext& context) {
  // To a group: the sender has no queue pair that this would slow down for all of it.
  if (context.now_ns < next_ns_ || packet.destination().IsMulticast()) return;
  if (context.egress.room() == 0 || !Send(packet, local, remote, context)) return;
  diagnostics_->Count(&Counters::np_cnp_sent, context.counters);
  next_ns_ = context.now_ns + uint64_t{1000} * parameters_->min_time_between_cnps;
}

// False when there was no mbuf.
bool NotificationPoint::Send(const wire::RocePacket& packet, Qpn local, Qpn remote,
                             PollContext& context) const {
  const std::optional<wire::EthernetHeader> ethernet =
      wire::ParseEthernet(packet.frame, packet.l3_offset);
  if (!ethernet) return false;
  verbs::LinkAddress own_link, link;
  own_link.Store(ethernet->destination, true);
  link.Store(ethernet->source, true);
  verbs::AddressHandle path;
  path.source = packet.destination();
  path.destination = packet.source();
  if (ethernet->vlan_tci) {
    path.vlan_tci = static_cast<uint16_t>((*ethernet->vlan_tci & wire::kVlanIdMask) |
                                          parameters_->cnp_802p_prio << wire::kVlanPriorityShift);
  }
  path.own_link = &own_link;
  path.link = &link;
  path.hop_limit = kHopLimit;
  // Itself capable: a full queue would rather mark it than drop it, and nobody answers the mark.
  path.traffic_class = static_cast<uint8_t>(parameters_->cnp_dscp << 2 | wire::kEct0);
  PacketBuilder builder(diagnostics_);
  builder.Reset(&path, local, remote, {.becn = true});
  if (!builder.Begin({.opcode = wire::Opcode::kCnp, .ext_bytes = kReservedBytes}, context)) {
    return false;
  }
  std::memset(builder.ext(), 0, kReservedBytes);
  builder.Finish(context);
  return true;
}

}  // namespace pollux::transport
