// Protection domains, memory regions and memory windows, and the table that finds regions and
// windows by key.
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

// IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT of rdma-core 45 and later: which FLUSHes
// of a peer a region and a queue pair allow.
inline constexpr int kAccessFlushGlobal = 1 << 8;
inline constexpr int kAccessFlushPersistent = 1 << 9;

class RegionTable;

// Memory regions and queue pairs can be used together only within one domain. A domain belongs to
// one worker: its regions are in that worker's table, and only that worker may use them.
struct ProtectionDomain {
  RegionTable* regions = nullptr;
  uint32_t handle = 0;     // never 0, never reused while the worker exists
  uint32_t use_count = 0;  // regions, windows, queue pairs and other objects that use it
};

// The kind of object that a key names.
enum class KeyKind : uint8_t {
  kRegion,       // registered by a call, until it is deregistered
  kFastRegion,   // allocated by a call; mapped and unmapped by work requests
  kWindowType1,  // bound by BindMw(), usable by every queue pair of its domain
  kWindowType2,  // bound by a work request, usable only by the queue pair that bound it
};

// A registered range of the application's memory, or a window onto one. lkey and rkey have the same
// value; a window has only an rkey. The application owns the memory, which must outlive the
// registration.
struct MemoryRegion {
  uint32_t key = 0;  // lkey and rkey; 0: not registered
  int access = 0;    // ibv_access_flags
  uint8_t* address = nullptr;
  uint64_t length = 0;  // bytes; with 0, only zero-byte accesses fit
  uint64_t iova = 0;    // the address of the first byte in work requests and peers' requests
  ProtectionDomain* pd = nullptr;

  // Internal to the table:
  KeyKind kind = KeyKind::kRegion;
  bool mapped = true;       // false: every access is refused
  uint32_t region_key = 0;  // of a mapped window: the region that it is bound to
  uint32_t windows = 0;     // of a region: the number of windows bound to it
  union {
    uint32_t qpn = 0;   // of a mapped type 2 window: the queue pair that may use it
    uint32_t capacity;  // of a fast region: the maximum number of bytes it maps
  };

  // Whether the region contains the `bytes` bytes, at least one, at address `first` of a work
  // request; At() is then the first of them.
  bool Contains(uint64_t first, uint64_t bytes) const {
    const uint64_t offset = first - iova;
    return offset < length && bytes <= length - offset;
  }
  uint8_t* At(uint64_t first) const { return address + (first - iova); }
  bool is_window() const { return kind == KeyKind::kWindowType1 || kind == KeyKind::kWindowType2; }
};
static_assert(sizeof(MemoryRegion) <= 64, "one cache line");

// A work request's parameters for a window or fast region.
struct Mapping {
  uint32_t key = 0;         // of the window or fast region, with the new low 8 bits
  uint32_t region_key = 0;  // lkey of the region to which a window is bound
  uint64_t address = 0;     // of the first byte; for a window, in the region's address space
  uint64_t length = 0;      // bytes; 0 unbinds a window
  uint64_t iova = 0;        // of a fast region
  // ibv_access_flags; with IBV_ACCESS_ZERO_BASED the first byte has address 0, which a window of
  // type 1 may not ask for
  int access = 0;
};

// The result of an access check: why memory must not be accessed.
enum class AccessResult : uint8_t { kOk, kNoSuchKey, kWrongDomain, kOutOfBounds, kNotAllowed };

// Regions and windows by key. An access must match the domain, bounds and access rights: RFC 5042
// sections 6.1.1, 6.2.1 and 6.3.5. A key is 32 unpredictable bits (RFC 8166 section 8.1.2): its
// upper 24 bits hold a randomly drawn slot and further random bits; its lower 8 bits are the
// variant that the consumer may change with each fast registration and each binding. Owned by one
// worker; not thread-safe.
class RegionTable {
 public:
  static constexpr uint32_t kMaxRegions = 1u << 20;

  // Creates a table for `capacity` regions (at most kMaxRegions). `random` is not owned and must
  // outlive it.
  RegionTable(uint32_t capacity, Random* random);

  // Registers memory under a new key. With IBV_ACCESS_ZERO_BASED the first byte has address 0.
  // Errors: ResourceExhausted at capacity; InvalidArgument for REMOTE_WRITE or REMOTE_ATOMIC
  // without LOCAL_WRITE (as ibv_reg_mr), for kAccessFlushPersistent, since no memory counts as
  // persistent (as rxe), or for a range that wraps around the address space.
  absl::StatusOr<MemoryRegion> Register(ProtectionDomain* pd, void* address, uint64_t length,
                                        int access);
  // As ibv_reg_mr_iova: peers and work requests address the first byte by `iova`.
  absl::StatusOr<MemoryRegion> RegisterIova(ProtectionDomain* pd, void* address, uint64_t length,
                                            uint64_t iova, int access);
  // Invalidates the key when it returns: RFC 5042 section 6.2.2. Of a fast region's key only the
  // upper 24 bits count. Errors: NotFound if no region has the key, FailedPrecondition while
  // windows are bound to it.
  absl::Status Deregister(uint32_t key);
  // As ibv_rereg_mr: a region from RegisterIova() takes another range, another domain of this table
  // or other rights, and keeps its key. Errors are those of Deregister() and RegisterIova(); the
  // region is then unchanged.
  absl::StatusOr<MemoryRegion> Reregister(uint32_t key, ProtectionDomain* pd, void* address,
                                          uint64_t length, uint64_t iova, int access);

  // Allocates a region without memory; Map() assigns it at most `capacity` bytes (as the kernel's
  // ib_alloc_mr). Free it with Deregister(). ResourceExhausted at capacity.
  absl::StatusOr<MemoryRegion> AllocFast(ProtectionDomain* pd, uint32_t capacity);
  // Allocates a fast region and maps it at once, without a work request. It can be used by its key
  // and real address, and invalidated like any fast region, also by the peer. Free it with
  // Deregister(), whether it is invalidated or not. Errors as Register(), except that
  // kAccessFlushPersistent is accepted: no FLUSH uses it.
  absl::StatusOr<MemoryRegion> RegisterFast(ProtectionDomain* pd, void* address, uint32_t length,
                                            int access);
  // Allocates an unbound window. ResourceExhausted at capacity.
  absl::StatusOr<MemoryRegion> AllocWindow(ProtectionDomain* pd, ibv_mw_type type);
  // Unbinds and frees a window. Only the upper 24 bits of `key` count. NotFound if no window
  // matches.
  absl::Status DeallocWindow(uint32_t key);

  // The effects of work requests of a queue pair in `pd`. Each returns false, and changes nothing,
  // if the key, its domain, its state or the mapping does not allow it.
  //
  // Maps a fast region that is not mapped.
  bool Map(const ProtectionDomain& pd, const Mapping& mapping);
  // Binds a window: one of type 2 must be unbound, one of type 1 need not be. Source: IB
  // specification 10.6.7.
  bool Bind(const ProtectionDomain& pd, uint32_t qpn, const Mapping& mapping);
  // Unmaps a fast region without windows, or a type 2 window.
  bool InvalidateLocal(const ProtectionDomain& pd, uint32_t key);
  // As InvalidateLocal(), on request of the peer of queue pair `qpn`, which must have bound the
  // window.
  bool InvalidateRemote(const ProtectionDomain& pd, uint32_t qpn, uint32_t key);

  // Returns null if no object has the key.
  const MemoryRegion* Find(uint32_t key) const {
    const MemoryRegion& slot = slots_[(key >> 8) & mask_];
    return slot.key == key && key != 0 ? &slot : nullptr;
  }
  // Checks an access of `length` bytes at `iova` through `key` within `pd`, with all rights in
  // `needed` (ibv_access_flags; 0 for a local read). On kOk, `*at` points to the first byte. A
  // zero-byte access is always allowed, whatever the key; `*at` is then null. A window's key is not
  // valid here.
  AccessResult Check(const ProtectionDomain& pd, uint32_t key, uint64_t iova, uint64_t length,
                     int needed, uint8_t** at) const {
    // The common case.
    if (const MemoryRegion* region = FindLocal(pd, key, needed);
        region != nullptr && region->Contains(iova, length) && length != 0) [[likely]] {
      *at = region->At(iova);
      return AccessResult::kOk;
    }
    return CheckClosely(pd, key, iova, length, needed, at);
  }
  // For several local accesses to one region: returns its entry, which is valid until a region
  // changes. Returns null if the key is not that of a mapped region of the domain with these access
  // rights; Check() returns the reason.
  const MemoryRegion* FindLocal(const ProtectionDomain& pd, uint32_t key, int needed) const {
    const MemoryRegion& slot = slots_[(key >> 8) & mask_];
    // An entry that has a domain has a key other than 0, so key 0 needs no check.
    if (slot.key != key || slot.pd != &pd || slot.is_window() || !slot.mapped ||
        (slot.access & needed) != needed) [[unlikely]] {
      return nullptr;
    }
    return &slot;
  }
  // As Check(), for the peer of queue pair `qpn`, which may use a window's key.
  AccessResult CheckRemote(const ProtectionDomain& pd, uint32_t qpn, uint32_t key, uint64_t iova,
                           uint64_t length, int needed, uint8_t** at) const;

  uint32_t size() const { return size_; }  // regions and windows
  uint32_t capacity() const { return capacity_; }

 private:
  absl::StatusOr<MemoryRegion*> Draw(ProtectionDomain* pd);
  // Returns the slot of a region without bound windows; errors as Deregister().
  absl::StatusOr<MemoryRegion*> FindUnbound(uint32_t key);
  void Release(MemoryRegion& slot);
  // Finds an entry by the upper 24 bits of `key`, whatever its variant; null unless it is in `pd`.
  MemoryRegion* FindVariant(const ProtectionDomain& pd, uint32_t key);
  bool Invalidate(MemoryRegion* slot);
  void Unbind(MemoryRegion& window);
  AccessResult CheckClosely(const ProtectionDomain& pd, uint32_t key, uint64_t iova,
                            uint64_t length, int needed, uint8_t** at) const;
  static AccessResult CheckEntry(const MemoryRegion& entry, const ProtectionDomain& pd,
                                 uint64_t iova, uint64_t length, int needed, uint8_t** at);

  uint32_t capacity_;
  uint32_t size_ = 0;
  // There are twice as many slots as regions, so a random draw soon finds a free one.
  uint32_t mask_;
  Random* random_;
  // Initially zero, which means free: a page is touched only when one of its slots is used.
  struct Free {
    void operator()(MemoryRegion* slots) const { std::free(slots); }
  };
  std::unique_ptr<MemoryRegion[], Free> slots_;
};

}  // namespace pollux::memory

#endif  // POLLUX_STACK_MEMORY_PROTECTION_DOMAIN_H_
