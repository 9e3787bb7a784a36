// Placing payload into the memory that a work request names.
#ifndef POLLUX_STACK_TRANSPORT_SCATTER_H_
#define POLLUX_STACK_TRANSPORT_SCATTER_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "stack/memory/protection_domain.h"

namespace pollux::transport {

// Copies `bytes` from `source` to `offset` bytes into the scatter list. False when a key, its
// domain, its bounds or its access does not allow it, or the list is too short; what lay before the
// offending element has then been written.
bool Scatter(const memory::ProtectionDomain& pd, const ibv_sge* sge, int num_sge, uint32_t offset,
             const uint8_t* source, uint32_t bytes);

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_SCATTER_H_
