#include "stack/ip/gid_table.h"

#include <algorithm>

namespace pollux::ip {

size_t GidTable::Assign(std::span<const GidEntry> wanted) {
  for (GidEntry& entry : entries_) {
    if (std::ranges::find(wanted, entry) == wanted.end()) entry = {};
  }
  size_t left_out = 0;
  for (const GidEntry& entry : wanted) {
    if (entry.gid.IsZero() || Find(entry.gid, entry.vlan) >= 0) continue;
    const auto place = std::ranges::find(entries_, GidEntry{});
    if (place == entries_.end()) {
      ++left_out;
      continue;
    }
    *place = entry;
    size_ = std::max(size_, static_cast<uint32_t>(place - entries_.begin()) + 1);
  }
  return left_out;
}

int GidTable::Find(const Gid& gid, uint16_t vlan) const {
  for (uint32_t i = 0; i < size_; ++i) {
    if (entries_[i].gid == gid && entries_[i].vlan == vlan) return static_cast<int>(i);
  }
  return -1;
}

bool GidTable::Contains(const Gid& gid, uint16_t vlan) const {
  if (entries_[recent_].gid == gid && entries_[recent_].vlan == vlan) [[likely]]
    return !gid.IsZero();
  const int found = gid.IsZero() ? -1 : Find(gid, vlan);
  if (found >= 0) recent_ = static_cast<uint32_t>(found);
  return found >= 0;
}

bool GidTable::HasVlan(uint16_t vlan) const {
  return std::any_of(entries_.begin(), entries_.begin() + size_, [vlan](const GidEntry& entry) {
    return !entry.gid.IsZero() && entry.vlan == vlan;
  });
}

}  // namespace pollux::ip
