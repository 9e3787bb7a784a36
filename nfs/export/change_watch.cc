#include "nfs/export/change_watch.h"

namespace pollux::nfs {

ChangeWatch::Ticket ChangeWatch::Begin(dev_t device, ino_t inode) {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  const uint64_t mixed = (inode ^ device << 32) * kGoldenRatio;
  const auto index = static_cast<uint32_t>(mixed >> 32) % kPlaces;
  Place& place = places_[index];
  const std::lock_guard lock(place.mutex);
  return {.place = index, .number = ++place.begun, .alone = place.under_way++ == 0};
}

bool ChangeWatch::End(const Ticket& ticket) {
  Place& place = places_[ticket.place];
  const std::lock_guard lock(place.mutex);
  --place.under_way;
  return ticket.alone && place.begun == ticket.number;
}

}  // namespace pollux::nfs
