// The GIDs of a port in the order that a Linux user knows from `ibv_devinfo -v`.
#ifndef POLLUX_STACK_IP_GID_TABLE_H_
#define POLLUX_STACK_IP_GID_TABLE_H_

#include <array>
#include <cstdint>
#include <span>

#include "stack/base/address.h"
#include "stack/base/types.h"

namespace pollux::ip {

struct GidEntry {
  Gid gid;  // all zeroes: an empty place
  uint16_t vlan = kNoVlan;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

class GidTable {
 public:
  static constexpr uint32_t kMaxGids = 64;  // addresses of one host's interface, link-local too

  // Who was there keeps its index, who is new takes the first free place: address handles and
  // applications go by indices. Returns how many found no place.
  size_t Assign(std::span<const GidEntry> wanted);

  // One past the last place that was ever taken.
  uint32_t size() const { return size_; }
  // An empty entry for an empty place and past the end.
  GidEntry at(uint32_t index) const { return index < size_ ? entries_[index] : GidEntry{}; }
  // -1 when it is not there.
  int Find(const Gid& gid, uint16_t vlan) const;
  // For every packet: the last one found is looked at first.
  bool Contains(const Gid& gid, uint16_t vlan) const;
  // Whether any address is on `vlan`.
  bool HasVlan(uint16_t vlan) const;

 private:
  std::array<GidEntry, kMaxGids> entries_{};
  uint32_t size_ = 0;
  mutable uint32_t recent_ = 0;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_GID_TABLE_H_
