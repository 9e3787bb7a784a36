// Protection domains, memory regions and windows, and the table that finds both by key.
#ifndef POLLUX_STACK_MEMORY_PROTECTION_DOMAIN_H_
#define POLLUX_STACK_MEMORY_PROTECTION_DOMAIN_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
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
  uint32_t use_count = 0;  // regions, windows, queue pairs and so on that hold it
};

// What a key stands for.
enum class KeyKind : uint8_t {
  kRegion,       // registered by a call, until it is deregistered
  kFastRegion,   // allocated by a call; mapped and unmapped by work requests
  kWindowType1,  // bound by BindMw(), to be used by every queue pair of its domain
  kWindowType2,  // bound by a work request, to be used by the queue pair that bound it
};

// A registered stretch of the application's memory, or a window onto one. lkey and rkey are one
// value; a window has an rkey only. The memory stays the application's; it must outlive the
// registration.
struct MemoryRegion {
  uint32_t key = 0;  // lkey and rkey; 0 means: not registered
  int access = 0;    // ibv_access_flags
  uint8_t* address = nullptr;
  uint64_t length = 0;  // bytes; 0 is allowed, only zero-byte accesses then fit
  uint64_t iova = 0;    // the address by which work requests and peers name the first byte
  ProtectionDomain* pd = nullptr;

  // The table's own.
  KeyKind kind = KeyKind::kRegion;
  bool mapped = true;       // false: every access is refused
  uint32_t region_key = 0;  // of a window that is mapped: what it is bound to
  uint32_t windows = 0;     // of a region: how many are bound to it
  union {
    uint32_t qpn = 0;   // of a window of type 2 that is mapped: who may use it
    uint32_t capacity;  // of a fast region: the most bytes that it maps
  };

  bool is_window() const { return kind == KeyKind::kWindowType1 || kind == KeyKind::kWindowType2; }
};
static_assert(sizeof(MemoryRegion) <= 64, "one cache line");

// What a work request asks of a window or of a fast region.
struct Mapping {
  uint32_t key = 0;         // of the window or fast region, with the new variant in its low 8 bits
  uint32_t region_key = 0;  // lkey of the region that a window is bound to
  uint64_t address = 0;     // of the first byte; for a window as the region names it
  uint64_t length = 0;      // bytes; a window of none is unbound
  uint64_t iova = 0;        // of a fast region
  int access = 0;           // ibv_access_flags; IBV_ACCESS_ZERO_BASED: the first byte is named 0
};

// Why memory may not be touched.
enum class AccessResult : uint8_t { kOk, kNoSuchKey, kWrongDomain, kOutOfBounds, kNotAllowed };

// Regions and windows by key. Who names one must name its domain, its bounds and its rights: RFC
// 5042 sections 6.1.1, 6.2.1 and 6.3.5. A key is 32 unpredictable bits (RFC 8166 section 8.1.2):
// its upper 24 bits hold a slot drawn at random and more random bits, its lower 8 bits are the
// variant that the consumer may change with each fast registration and each binding. One owner.
class RegionTable {
 public:
  static constexpr uint32_t kMaxRegions = 1u << 20;

  // Room for `capacity` regions (at most kMaxRegions). `random` is the owner's and outlives this.
  RegionTable(uint32_t capacity, Random* random);

  // Registers; the region is found by its key from now on. With IBV_ACCESS_ZERO_BASED its first
  // byte is named 0. Errors: ResourceExhausted at capacity, InvalidArgument for REMOTE_WRITE or
  // REMOTE_ATOMIC without LOCAL_WRITE (as ibv_reg_mr), or a stretch that wraps around the address
  // space.
  absl::StatusOr<MemoryRegion> Register(ProtectionDomain* pd, void* address, uint64_t length,
                                        int access);
  // As ibv_reg_mr_iova: peers and work requests name the first byte `iova`.
  absl::StatusOr<MemoryRegion> RegisterIova(ProtectionDomain* pd, void* address, uint64_t length,
                                            uint64_t iova, int access);
  // Refuses the key from this call on: RFC 5042 section 6.2.2. Errors: NotFound when no region
  // bears the key (any more), FailedPrecondition while windows are bound to it.
  absl::Status Deregister(uint32_t key);
  // As ibv_rereg_mr: the region that RegisterIova() made stands for another stretch, in another
  // domain of this table or with other rights, under its old key. Errors as of both, and nothing
  // has changed then.
  absl::StatusOr<MemoryRegion> Reregister(uint32_t key, ProtectionDomain* pd, void* address,
                                          uint64_t length, uint64_t iova, int access);

  // A region without memory, which Map() gives it: at most `capacity` bytes (as the kernel's
  // ib_alloc_mr). ResourceExhausted at capacity. Given back by Deregister().
  absl::StatusOr<MemoryRegion> AllocFast(ProtectionDomain* pd, uint32_t capacity);
  // A fast region that is mapped at once, by the owner instead of by a work request: found by its
  // key from now on, named by its address, and invalidated as any fast region, by the peer too.
  // Given back by Deregister(), invalidated or not. Errors as Register().
  absl::StatusOr<MemoryRegion> RegisterFast(ProtectionDomain* pd, void* address, uint32_t length,
                                            int access);
  // A window, unbound. ResourceExhausted at capacity.
  absl::StatusOr<MemoryRegion> AllocWindow(ProtectionDomain* pd, ibv_mw_type type);
  // Unbinds and gives back. Only the upper 24 bits of `key` count. NotFound for anything else.
  absl::Status DeallocWindow(uint32_t key);

  // What the work requests of a queue pair in `pd` do; false when the key, its domain, its state or
  // the mapping does not allow it, and nothing has changed then.
  //
  // Maps a fast region that is not mapped.
  bool Map(const ProtectionDomain& pd, const Mapping& mapping);
  // Binds a window: of type 2 when it is not bound, of type 1 always. Source: IB specification
  // 10.6.7.
  bool Bind(const ProtectionDomain& pd, uint32_t qpn, const Mapping& mapping);
  // Unmaps a fast region without windows, or a window of type 2.
  bool InvalidateLocal(const ProtectionDomain& pd, uint32_t key);
  // The same, asked for by the peer of queue pair `qpn`: a window must be bound by that one.
  bool InvalidateRemote(const ProtectionDomain& pd, uint32_t qpn, uint32_t key);

  // Null when nothing bears the key.
  const MemoryRegion* Find(uint32_t key) const {
    const MemoryRegion& slot = slots_[(key >> 8) & mask_];
    return slot.key == key && key != 0 ? &slot : nullptr;
  }
  // Checks an access of `length` bytes at `iova` through `key` from inside `pd`, all of `needed`
  // (ibv_access_flags; 0 for a local read). On kOk `*at` is the first byte's place. A zero-byte
  // access is always allowed, whatever the key; `*at` is then null. A window's key is none here.
  AccessResult Check(const ProtectionDomain& pd, uint32_t key, uint64_t iova, uint64_t length,
                     int needed, uint8_t** at) const {
    const MemoryRegion& slot = slots_[(key >> 8) & mask_];
    const uint64_t offset = iova - slot.iova;
    // What nearly every access finds: a region that has a domain is registered under a key.
    if (slot.key == key && slot.pd == &pd && slot.kind == KeyKind::kRegion && slot.mapped &&
        (slot.access & needed) == needed && offset < slot.length &&
        length <= slot.length - offset && length != 0) [[likely]] {
      *at = slot.address + offset;
      return AccessResult::kOk;
    }
    return CheckClosely(pd, key, iova, length, needed, at);
  }
  // The same for the peer of queue pair `qpn`, who may name a window.
  AccessResult CheckRemote(const ProtectionDomain& pd, uint32_t qpn, uint32_t key, uint64_t iova,
                           uint64_t length, int needed, uint8_t** at) const;

  uint32_t size() const { return size_; }  // regions and windows
  uint32_t capacity() const { return capacity_; }

 private:
  absl::StatusOr<MemoryRegion*> Draw(ProtectionDomain* pd);
  // The slot of a region that no window is bound to; errors as Deregister()'s.
  absl::StatusOr<MemoryRegion*> FindUnbound(uint32_t key);
  void Release(MemoryRegion& slot);
  // By the upper 24 bits of `key`, whatever its variant; null unless it is `pd`'s.
  MemoryRegion* FindVariant(const ProtectionDomain& pd, uint32_t key);
  bool Invalidate(MemoryRegion* slot);
  void Unbind(MemoryRegion& window);
  AccessResult CheckClosely(const ProtectionDomain& pd, uint32_t key, uint64_t iova,
                            uint64_t length, int needed, uint8_t** at) const;
  static AccessResult CheckEntry(const MemoryRegion& entry, const ProtectionDomain& pd,
                                 uint64_t iova, uint64_t length, int needed, uint8_t** at);

  uint32_t capacity_;
  uint32_t size_ = 0;
  uint32_t mask_;  // slots are twice the capacity, so that a random draw soon finds a free one
  Random* random_;
  // Zeros at first, which are free slots: a page is touched when one of its slots is used.
  struct Free {
    void operator()(MemoryRegion* slots) const { std::free(slots); }
  };
  std::unique_ptr<MemoryRegion[], Free> slots_;
};

}  // namespace pollux::memory

#endif  // POLLUX_STACK_MEMORY_PROTECTION_DOMAIN_H_
