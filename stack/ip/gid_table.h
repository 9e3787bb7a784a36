// The GIDs of a port, in the order that Linux users know from `ibv_devinfo -v`.
#ifndef POLLUX_STACK_IP_GID_TABLE_H_
#define POLLUX_STACK_IP_GID_TABLE_H_

#include <array>
#include <cstdint>
#include <span>

#include "stack/base/address.h"
#include "stack/base/types.h"

namespace pollux::ip {

struct GidEntry {
  Gid gid;  // all zeroes: an empty entry
  uint16_t vlan = kNoVlan;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

class GidTable {
 public:
  static constexpr uint32_t kMaxGids = 64;  // one interface's, link-local ones included

  // Entries that are already in the table keep their index and new ones take the first free slot,
  // because address handles and applications refer to entries by index. Returns the number of
  // entries for which there was no slot.
  size_t Assign(std::span<const GidEntry> wanted);

  // One more than the highest index that was ever in use.
  uint32_t size() const { return size_; }
  // Returns an empty entry for an empty slot or an index past the end.
  GidEntry at(uint32_t index) const { return index < size_ ? entries_[index] : GidEntry{}; }
  // Returns -1 if there is no such entry.
  int Find(const Gid& gid, uint16_t vlan) const;
  // Called for every packet, so it compares with the entry found last before it searches.
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
