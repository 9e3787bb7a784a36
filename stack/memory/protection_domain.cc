#include "stack/memory/protection_domain.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "stack/base/planted_fault.h"

namespace pollux::memory {
namespace {

// What a peer may change must be writable by the local access flags.
bool WritesWithoutLocalWrite(int remote_access, int local_access) {
  return (remote_access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
         (local_access & IBV_ACCESS_LOCAL_WRITE) == 0;
}

absl::Status CheckStretch(const void* address, uint64_t length, uint64_t iova, int access) {
  if (WritesWithoutLocalWrite(access, access)) {
    return absl::InvalidArgumentError(
        "memory region: REMOTE_WRITE or REMOTE_ATOMIC asked for without LOCAL_WRITE; add it");
  }
  if ((access & kAccessFlushPersistent) != 0) {
    return absl::InvalidArgumentError(
        "memory region: FLUSH_PERSISTENT asked for memory that is not persistent; leave it out");
  }
  const uint64_t start = reinterpret_cast<uint64_t>(address);
  if (start + length < start || iova + length < iova) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory region: %u bytes at 0x%x (iova 0x%x) wrap around the address space",
                        length, start, iova));
  }
  return absl::OkStatus();
}

void SetStretch(void* address, uint64_t length, uint64_t iova, int access, MemoryRegion* region) {
  region->access = access;
  region->address = static_cast<uint8_t*>(address);
  region->length = length;
  region->iova = iova;
}

}  // namespace

RegionTable::RegionTable(uint32_t capacity, Random* random)
    : capacity_(std::clamp<uint32_t>(capacity, 1, kMaxRegions)),
      mask_(std::bit_ceil(2 * capacity_) - 1),
      random_(random),
      slots_(static_cast<MemoryRegion*>(std::calloc(mask_ + 1, sizeof(MemoryRegion)))) {
  if (slots_ == nullptr) std::__throw_bad_alloc();
  static_assert(std::is_trivially_copyable_v<MemoryRegion>);
  static_assert(kMaxRegions * 2 <= 1u << 24, "a slot number must fit above the 8 variant bits");
}

absl::StatusOr<MemoryRegion> RegionTable::Register(ProtectionDomain* pd, void* address,
                                                   uint64_t length, int access) {
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  return RegisterIova(pd, address, length, zero_based ? 0 : reinterpret_cast<uint64_t>(address),
                      access);
}

absl::StatusOr<MemoryRegion> RegionTable::RegisterIova(ProtectionDomain* pd, void* address,
                                                       uint64_t length, uint64_t iova, int access) {
  if (absl::Status status = CheckStretch(address, length, iova, access); !status.ok()) {
    return status;
  }
  const absl::StatusOr<MemoryRegion*> slot = Draw(pd);
  if (!slot.ok()) return slot.status();
  SetStretch(address, length, iova, access, *slot);
  return **slot;
}

// A new key and its slot.
absl::StatusOr<MemoryRegion*> RegionTable::Draw(ProtectionDomain* pd) {
  if (size_ == capacity_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "memory region: all %u of this worker are registered; deregister some or configure more",
        capacity_));
  }
  // At most half of the slots are taken, so two draws are expected and a long run is not. No
  // variant of a key may be 0.
  uint32_t key;
  do {
    key = random_->Next32();
  } while (key >> 8 == 0 || slots_[(key >> 8) & mask_].key != 0);
  MemoryRegion& slot = slots_[(key >> 8) & mask_];
  slot = MemoryRegion{};
  slot.key = key;
  slot.pd = pd;
  ++size_;
  ++pd->use_count;
  return &slot;
}

void RegionTable::Release(MemoryRegion& slot) {
  --slot.pd->use_count;
  slot = MemoryRegion{};
  --size_;
}

absl::StatusOr<MemoryRegion*> RegionTable::FindUnbound(uint32_t key) {
  MemoryRegion& slot = slots_[(key >> 8) & mask_];
  // A work request may have mapped a fast region under another variant of its key since.
  const bool any_variant = slot.kind == KeyKind::kFastRegion && slot.key >> 8 == key >> 8;
  if (key == 0 || (slot.key != key && !any_variant) || slot.is_window()) {
    return absl::NotFoundError(absl::StrFormat("memory region: no region has key 0x%08x", key));
  }
  if (slot.windows != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "memory region: %u windows are bound to it; unbind or free them first", slot.windows));
  }
  return &slot;
}

absl::Status RegionTable::Deregister(uint32_t key) {
  const absl::StatusOr<MemoryRegion*> slot = FindUnbound(key);
  if (!slot.ok()) return slot.status();
  if (Planted(Fault::kStaleKeyAccepted)) return absl::OkStatus();
  Release(**slot);
  return absl::OkStatus();
}

absl::StatusOr<MemoryRegion> RegionTable::Reregister(uint32_t key, ProtectionDomain* pd,
                                                     void* address, uint64_t length, uint64_t iova,
                                                     int access) {
  if (absl::Status status = CheckStretch(address, length, iova, access); !status.ok()) {
    return status;
  }
  const absl::StatusOr<MemoryRegion*> slot = FindUnbound(key);
  if (!slot.ok()) return slot.status();
  if ((*slot)->kind != KeyKind::kRegion) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory region: key 0x%08x is a fast region's; map it instead", key));
  }
  --(*slot)->pd->use_count;
  ++pd->use_count;
  (*slot)->pd = pd;
  SetStretch(address, length, iova, access, *slot);
  return **slot;
}

AccessResult RegionTable::CheckClosely(const ProtectionDomain& pd, uint32_t key, uint64_t iova,
                                       uint64_t length, int needed, uint8_t** at) const {
  if (length == 0) {
    *at = nullptr;
    return AccessResult::kOk;
  }
  const MemoryRegion* region = Find(key);
  if (region == nullptr || region->is_window()) return AccessResult::kNoSuchKey;
  return CheckEntry(*region, pd, iova, length, needed, at);
}

AccessResult RegionTable::CheckRemote(const ProtectionDomain& pd, uint32_t qpn, uint32_t key,
                                      uint64_t iova, uint64_t length, int needed,
                                      uint8_t** at) const {
  if (length == 0) {
    *at = nullptr;
    return AccessResult::kOk;
  }
  const MemoryRegion* entry = Find(key);
  if (entry == nullptr) return AccessResult::kNoSuchKey;
  if (entry->kind == KeyKind::kWindowType2 && entry->qpn != qpn) return AccessResult::kWrongDomain;
  return CheckEntry(*entry, pd, iova, length, needed, at);
}

AccessResult RegionTable::CheckEntry(const MemoryRegion& entry, const ProtectionDomain& pd,
                                     uint64_t iova, uint64_t length, int needed, uint8_t** at) {
  if (!entry.mapped) return AccessResult::kNoSuchKey;
  if (entry.pd != &pd) return AccessResult::kWrongDomain;
  if (iova < entry.iova || iova - entry.iova > entry.length ||
      length > entry.length - (iova - entry.iova)) {
    return AccessResult::kOutOfBounds;
  }
  if ((entry.access & needed) != needed) return AccessResult::kNotAllowed;
  *at = entry.address + (iova - entry.iova);
  return AccessResult::kOk;
}

}  // namespace pollux::memory
