// The protection domains of a worker, and the memory regions and windows in them.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_MEMORY_OBJECTS_H_
#define POLLUX_STACK_ENGINE_OBJECTS_MEMORY_OBJECTS_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/random.h"
#include "stack/engine/objects/object_table.h"
#include "stack/memory/protection_domain.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

// Implements calls of Worker, which describes them.
class MemoryObjects {
 public:
  // `random` must outlive this object.
  MemoryObjects(uint32_t max_domains, uint32_t max_regions, Random* random)
      : regions_(max_regions, random), domains_("protection domain", max_domains) {}

  // Needs no look-up, because registering memory is part of every call of an upper layer.
  bool Owns(const memory::ProtectionDomain* pd) const {
    return pd != nullptr && pd->regions == &regions_;
  }
  absl::StatusOr<memory::ProtectionDomain*> AllocPd();
  absl::Status DeallocPd(memory::ProtectionDomain* pd);

  absl::StatusOr<memory::MemoryRegion> RegMr(memory::ProtectionDomain* pd, void* address,
                                             uint64_t length, int access);
  absl::Status DeregMr(const memory::MemoryRegion& region);
  absl::StatusOr<memory::MemoryRegion> AllocFastMr(memory::ProtectionDomain* pd, uint32_t capacity);
  absl::StatusOr<memory::MemoryRegion> RegFastMr(memory::ProtectionDomain* pd, void* address,
                                                 uint32_t length, int access);

  absl::StatusOr<ibv_mw*> AllocMw(memory::ProtectionDomain* pd, ibv_mw_type type);
  absl::Status DeallocMw(ibv_mw* mw);
  int BindMw(verbs::QueuePair* qp, ibv_mw* mw, const ibv_mw_bind& bind);

  const memory::RegionTable& regions() const { return regions_; }
  size_t domains() const { return domains_.size(); }
  size_t windows() const { return windows_.size(); }

 private:
  memory::RegionTable regions_;
  ObjectTable<memory::ProtectionDomain> domains_;
  uint32_t next_domain_handle_ = 1;
  ObjectTable<ibv_mw> windows_{"memory window"};  // limited by the table of regions
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_MEMORY_OBJECTS_H_
