// An address handle: everything a packet needs to reach one destination.
#ifndef POLLUX_STACK_VERBS_ADDRESS_HANDLE_H_
#define POLLUX_STACK_VERBS_ADDRESS_HANDLE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"

namespace pollux::verbs {

// The link-layer address of a next hop or of this host in one 64-bit word. The worker that owns the
// neighbour table writes it; every worker reads it with a plain load.
class LinkAddress {
 public:
  struct Value {
    MacAddress mac{};
    bool resolved = false;
    bool unanswered = false;  // not resolved: the last requests for it had no reply
    uint8_t version = 0;      // changes with every store
  };
  Value Load() const {
    const uint64_t word = word_.load(std::memory_order_acquire);
    Value value;
    for (int i = 0; i < 6; ++i) value.mac[i] = static_cast<uint8_t>(word >> (8 * i));
    value.resolved = (word >> 48) & 1;
    value.unanswered = (word >> 49) & 1;
    value.version = static_cast<uint8_t>(word >> 56);
    return value;
  }
  // The version (in the top byte) and the resolved bit together. Comparing this word is a cheap
  // test whether a header template is out of date.
  uint64_t word() const { return word_.load(std::memory_order_acquire); }
  static bool IsResolved(uint64_t word) { return (word >> 48 & 1) != 0; }
  bool resolved() const { return IsResolved(word()); }
  // Only for the owning worker.
  void Store(const MacAddress& mac, bool resolved, bool unanswered = false) {
    uint64_t word = 0;
    for (int i = 0; i < 6; ++i) word |= static_cast<uint64_t>(mac[i]) << (8 * i);
    word |= static_cast<uint64_t>(resolved) << 48;
    word |= static_cast<uint64_t>(unanswered) << 49;
    word |= ((word_.load(std::memory_order_relaxed) >> 56) + 1) << 56;
    word_.store(word, std::memory_order_release);
  }
  // Stores the same with another version, since the headers of packets that use it have changed.
  void Renew() {
    const Value value = Load();
    Store(value.mac, value.resolved, value.unanswered);
  }

 private:
  std::atomic<uint64_t> word_{0};
};

inline const LinkAddress kNoLinkAddress;

// Derives from ibv_ah so that ibv_send_wr::wr.ud.ah can point to it. Created by ip::Interface,
// which owns `own_link` and `link`; both must outlive the handle. When `own_link` changes, so does
// the version of `link`.
struct AddressHandle : ibv_ah {
  Gid source;
  Gid destination;                                // of the same IP version
  std::optional<uint16_t> vlan_tci;               // 802.1Q tag with priority; empty: no tag
  const LinkAddress* own_link = &kNoLinkAddress;  // of this host
  const LinkAddress* link = nullptr;              // of the next hop
  uint8_t hop_limit = 64;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_ADDRESS_HANDLE_H_
