// Connection management on several workers of one device, each with a manager and a queue pair 1
// that share nothing: which manager a MAD belongs to follows from the MAD alone.
#ifndef POLLUX_CM_GSI_SHARD_H_
#define POLLUX_CM_GSI_SHARD_H_

#include <cstdint>
#include <span>

#include "stack/base/types.h"

namespace pollux::cm {

// A manager's place among those of its device: `index` is its worker's.
struct Shard {
  // The upper bits of the IDs that a manager gives out name it, unless it is alone. What is left
  // stays unpredictable.
  static constexpr unsigned kIdBits = 4;
  static constexpr uint32_t kMaxCount = 1u << kIdBits;

  uint32_t index = 0;
  uint32_t count = 1;  // 1..kMaxCount

  // A communication ID or SIDR request ID that leads here, of 32 random bits.
  constexpr uint32_t MakeId(uint32_t random) const {
    constexpr unsigned kRest = 32 - kIdBits;
    return count == 1 ? random : index << kRest | (random & ((1u << kRest) - 1));
  }
  constexpr uint32_t Next() const { return (index + 1) % count; }
  // Where a client's connections to a service come together that wants them so
  // (Placement::kByClient). Consecutive addresses take turns.
  uint32_t HomeOf(const Gid& client) const;
};

// For engine::DeviceOptions::gsi_owner: the worker, below `workers`, whose manager a MAD from
// `from` is for. The answer to something is for who has asked, by the ID that it names. A REQ
// belongs to a worker by who asks and for which of its queue pairs: what is sent again, and another
// request for the same queue pair, meet what is known of the first; consecutive numbers take turns.
// SIDR_REQs go by their request ID instead. What names nobody, or is no MAD of CM, is worker 0's to
// deal with.
uint32_t GsiOwner(std::span<const uint8_t> mad, const Gid& from, uint32_t workers);

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_SHARD_H_
