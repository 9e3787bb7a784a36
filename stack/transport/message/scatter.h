// Copies payload into the memory of a work request.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_SCATTER_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_SCATTER_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>

#include "stack/base/planted_fault.h"
#include "stack/memory/protection_domain.h"

namespace pollux::transport {

// Copies `bytes` bytes from `source` to `offset` in the scatter list. Returns false if a key, its
// domain, its bounds or its access does not allow it, or the list is too short; the elements before
// the offending one have then been written.
bool ScatterList(const memory::ProtectionDomain& pd, const ibv_sge* sge, int num_sge,
                 uint32_t offset, const uint8_t* source, uint32_t bytes);
inline bool Scatter(const memory::ProtectionDomain& pd, const ibv_sge* sge, int num_sge,
                    uint32_t offset, const uint8_t* source, uint32_t bytes) {
  // The usual case: one element that holds all of it.
  uint8_t* at;
  if (num_sge == 1 && bytes > 0 && uint64_t{offset} + bytes <= sge->length &&
      pd.regions->Check(pd, sge->lkey, sge->addr + offset, bytes, IBV_ACCESS_LOCAL_WRITE, &at) ==
          memory::AccessResult::kOk) [[likely]] {
    std::memcpy(at, source, bytes);
    if (Planted(Fault::kOneByteBeyond)) at[bytes] ^= 0xFF;
    return true;
  }
  return ScatterList(pd, sge, num_sge, offset, source, bytes);
}

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_SCATTER_H_
