// Divides the MADs of a device among several workers. Each has a CM manager and a queue pair 1 that
// share nothing with the others: the contents of a MAD alone decide which manager it belongs to.
#ifndef POLLUX_CM_GSI_SHARD_H_
#define POLLUX_CM_GSI_SHARD_H_

#include <cstdint>
#include <optional>
#include <span>

#include "cm/wire/mad.h"
#include "stack/base/types.h"

namespace pollux::cm {

// The position of a manager among those of its device; `index` is its worker's index.
struct Shard {
  // From the most significant bit of the IDs that a manager assigns: the process, if several share
  // the interface; the manager, if the device has several. The other bits are unpredictable.
  static constexpr unsigned kProcessBits = 8;
  static constexpr unsigned kIdBits = 4;
  static constexpr unsigned kRestBits = 32 - kProcessBits - kIdBits;
  static constexpr uint32_t kMaxCount = 1u << kIdBits;

  uint32_t index = 0;
  uint32_t count = 1;  // 1..kMaxCount
  std::optional<uint8_t> process;

  // Makes a communication ID or SIDR request ID of this manager from 32 random bits.
  constexpr uint32_t MakeId(uint32_t random) const {
    uint32_t id = random;
    if (process)
      id = uint32_t{*process} << (32 - kProcessBits) | (id & (UINT32_MAX >> kProcessBits));
    if (count > 1) id = (id & ~((kMaxCount - 1) << kRestBits)) | index << kRestBits;
    return id;
  }
  static constexpr uint8_t ProcessOf(uint32_t id) {
    return static_cast<uint8_t>(id >> (32 - kProcessBits));
  }
  static constexpr uint32_t IndexOf(uint32_t id) { return id >> kRestBits & (kMaxCount - 1); }
  constexpr uint32_t Next() const { return (index + 1) % count; }
  // The manager that serves all connections of a client if the service uses Placement::kByClient.
  // Consecutive addresses get consecutive managers.
  uint32_t HomeOf(const Gid& client) const;
};

// Returns the communication ID or SIDR request ID in a CM message that its receiver has assigned.
// Not for REQ and SIDR_REQ, which have none. `mad`: kMadBytes, with the header `header`.
uint32_t ReceiversId(const MadHeader& header, std::span<const uint8_t> mad);

// For engine::DeviceOptions::gsi_owner: returns the worker, below `workers`, whose manager handles
// a MAD that came from address `from`. A response goes to the manager that assigned the ID in it. A
// REQ goes to the worker chosen by the sender's address and queue pair number, and a SIDR_REQ to
// the one chosen by address and request ID; so a repeated request, and another REQ for the same
// queue pair, reach the manager that knows the first one, and consecutive numbers get consecutive
// workers. A MAD without such an ID, or one that is not CM's, goes to worker 0.
uint32_t GsiOwner(std::span<const uint8_t> mad, const Gid& from, uint32_t workers);

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_SHARD_H_
