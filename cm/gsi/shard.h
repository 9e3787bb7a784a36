// Divides the MADs of a device among several workers. Each has a CM manager and a queue pair 1 that
// share nothing with the others: the contents of a MAD alone decide which manager it belongs to.
#ifndef POLLUX_CM_GSI_SHARD_H_
#define POLLUX_CM_GSI_SHARD_H_

#include <cstdint>
#include <span>

#include "stack/base/types.h"

namespace pollux::cm {

// The position of a manager among those of its device; `index` is its worker's index.
struct Shard {
  // If there are several managers, the upper bits of the IDs that a manager assigns hold its index.
  // The lower bits stay unpredictable.
  static constexpr unsigned kIdBits = 4;
  static constexpr uint32_t kMaxCount = 1u << kIdBits;

  uint32_t index = 0;
  uint32_t count = 1;  // 1..kMaxCount

  // Makes a communication ID or SIDR request ID of this manager from 32 random bits.
  constexpr uint32_t MakeId(uint32_t random) const {
    constexpr unsigned kRest = 32 - kIdBits;
    return count == 1 ? random : index << kRest | (random & ((1u << kRest) - 1));
  }
  constexpr uint32_t Next() const { return (index + 1) % count; }
  // The manager that serves all connections of a client if the service uses Placement::kByClient.
  // Consecutive addresses get consecutive managers.
  uint32_t HomeOf(const Gid& client) const;
};

// For engine::DeviceOptions::gsi_owner: returns the worker, below `workers`, whose manager handles
// a MAD that came from address `from`. A response goes to the manager that assigned the ID in it. A
// REQ goes to the worker chosen by the sender's address and queue pair number, and a SIDR_REQ to
// the one chosen by address and request ID; so a repeated request, and another REQ for the same
// queue pair, reach the manager that knows the first one, and consecutive numbers get consecutive
// workers. A MAD without such an ID, or one that is not CM's, goes to worker 0.
uint32_t GsiOwner(std::span<const uint8_t> mad, const Gid& from, uint32_t workers);

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_SHARD_H_
