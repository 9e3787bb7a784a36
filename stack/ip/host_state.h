// The state of an interface and its link, shared by the protocols that it implements. For use in
// this room only.
#ifndef POLLUX_STACK_IP_HOST_STATE_H_
#define POLLUX_STACK_IP_HOST_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"
#include "stack/ip/gid_table.h"
#include "stack/ip/interface_counters.h"
#include "stack/ip/neighbours.h"
#include "stack/ip/routes.h"
#include "stack/transport/message/poll_context.h"
#include "stack/wire/ethernet.h"

struct rte_mbuf;

namespace pollux::ip {

// Another host that claims one of the interface's addresses.
struct AddressConflict {
  Gid address;
  MacAddress mac{};
  friend bool operator==(const AddressConflict&, const AddressConflict&) = default;
};

struct HostState {
  explicit HostState(Solicitor* solicitor) : neighbours(solicitor, &has_new_deadline) {}

  void SetMac(const MacAddress& now) {
    mac = now;
    own_link.Store(now, true);
  }

  MacAddress mac{};
  verbs::LinkAddress own_link;  // `mac` for all workers
  bool answers = true;          // InterfaceConfig::answers
  GidTable gids;
  Routes routes;
  bool has_new_deadline = true;  // Interface::TakeNewDeadline()
  NeighbourTable neighbours;
  InterfaceCounters counters;
  std::optional<AddressConflict> conflict;  // the latest
  uint64_t claimed = 0;  // a bit per entry of `gids`: another host has claimed it
  static_assert(GidTable::kMaxGids <= 64);
};

// Notes that the host with `mac` claims `own`, which is in the GID table.
inline void NoteConflict(HostState* host, const GidEntry& own, const MacAddress& mac) {
  host->conflict = {.address = own.gid, .mac = mac};
  host->claimed |= uint64_t{1} << host->gids.Find(own.gid, own.vlan);
}

// One of the interface's own frames under construction. `l3` is where the data after the Ethernet
// header begins.
struct OutFrame {
  rte_mbuf* mbuf = nullptr;
  uint8_t* l3 = nullptr;
};
// Allocates a frame with room for `l3_bytes` and writes its Ethernet header (tagged on a VLAN). If
// no buffer can hold it, this is counted, `l3` is null, and there is nothing to send.
OutFrame BeginFrame(const HostState& host, const MacAddress& to, uint16_t vlan,
                    wire::EtherType type, size_t l3_bytes, transport::PollContext& context);
void SendFrame(const OutFrame& frame, transport::PollContext& context);

// The VLAN ID of a tag; kNoVlan if there is no tag or it carries only a priority.
inline uint16_t VlanOf(const wire::EthernetHeader& ethernet) {
  return ethernet.vlan_tci.value_or(0) & wire::kVlanIdMask;
}

inline bool IsUnicast(const MacAddress& mac) { return (mac[0] & 0x01) == 0 && mac != MacAddress{}; }

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_HOST_STATE_H_
