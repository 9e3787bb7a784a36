// Protection domains, memory regions, and the table that finds a region by its key.
#ifndef POLLUX_STACK_MEMORY_PROTECTION_DOMAIN_H_
#define POLLUX_STACK_MEMORY_PROTECTION_DOMAIN_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/random.h"

namespace pollux::memory {

class RegionTable;

// Memory regions and queue pairs work together only inside one domain. A domain is bound to one
// worker: its regions stand in that worker's table and are that worker's alone.
struct ProtectionDomain {
  RegionTable* regions = nullptr;
  uint32_t handle = 0;     // never 0, never reused while the worker lives
  uint32_t use_count = 0;  // regions, queue pairs and address handles that hold it
};

// A registered stretch of the application's memory. lkey and rkey are one value. The memory stays
// the application's; it must outlive the registration.
struct MemoryRegion {
  uint32_t key = 0;  // lkey and rkey; 0 means: not registered
  int access = 0;    // ibv_access_flags
  uint8_t* address = nullptr;
  uint64_t length = 0;  // bytes; 0 is allowed, only zero-byte accesses then fit
  uint64_t iova = 0;    // the address by which work requests and peers name the first byte
  ProtectionDomain* pd = nullptr;
};

// Why memory may not be touched.
enum class AccessResult : uint8_t { kOk, kNoSuchKey, kWrongDomain, kOutOfBounds, kNotAllowed };

// Regions by key. A key is 32 unpredictable bits: its upper 24 bits hold a slot drawn at random and
// more random bits, its lower 8 bits are the variant that the consumer may change. One owner.
class RegionTable {
 public:
  static constexpr uint32_t kMaxRegions = 1u << 20;

  // Room for `capacity` regions (at most kMaxRegions). `random` is the owner's and outlives this.
  RegionTable(uint32_t capacity, Random* random);

  // Registers; the region is found by its key from now on. Errors: ResourceExhausted at capacity,
  // InvalidArgument for REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE (as ibv_reg_mr), or a
  // stretch that wraps around the address space.
  absl::StatusOr<MemoryRegion> Register(ProtectionDomain* pd, void* address, uint64_t length,
                                        int access);
  // As ibv_reg_mr_iova: peers and work requests name the first byte `iova`.
  absl::StatusOr<MemoryRegion> RegisterIova(ProtectionDomain* pd, void* address, uint64_t length,
                                            uint64_t iova, int access);
  // Refuses the key from this call on. NotFound when the key is not registered (any more).
  absl::Status Deregister(uint32_t key);

  // Null when no region bears the key.
  const MemoryRegion* Find(uint32_t key) const {
    const MemoryRegion& slot = slots_[(key >> 8) & mask_];
    return slot.key == key && key != 0 ? &slot : nullptr;
  }
  // Checks an access of `length` bytes at `iova` through `key` from inside `pd`, all of `needed`
  // (ibv_access_flags; 0 for a local read). On kOk `*at` is the first byte's place. A zero-byte
  // access is always allowed, whatever the key; `*at` is then null.
  AccessResult Check(const ProtectionDomain& pd, uint32_t key, uint64_t iova, uint64_t length,
                     int needed, uint8_t** at) const;

  uint32_t size() const { return size_; }
  uint32_t capacity() const { return capacity_; }

 private:
  uint32_t capacity_;
  uint32_t size_ = 0;
  uint32_t mask_;  // slots are twice the capacity, so that a random draw soon finds a free one
  Random* random_;
  std::vector<MemoryRegion> slots_;
};

}  // namespace pollux::memory

#endif  // POLLUX_STACK_MEMORY_PROTECTION_DOMAIN_H_
