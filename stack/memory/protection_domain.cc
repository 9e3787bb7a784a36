#include "stack/memory/protection_domain.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "stack/base/planted_fault.h"

namespace pollux::memory {

RegionTable::RegionTable(uint32_t capacity, Random* random)
    : capacity_(std::clamp<uint32_t>(capacity, 1, kMaxRegions)),
      mask_(std::bit_ceil(2 * capacity_) - 1),
      random_(random),
      slots_(mask_ + 1) {
  static_assert(kMaxRegions * 2 <= 1u << 24, "a slot number must fit above the 8 variant bits");
}

absl::StatusOr<MemoryRegion> RegionTable::Register(ProtectionDomain* pd, void* address,
                                                   uint64_t length, int access) {
  return RegisterIova(pd, address, length, reinterpret_cast<uint64_t>(address), access);
}

absl::StatusOr<MemoryRegion> RegionTable::RegisterIova(ProtectionDomain* pd, void* address,
                                                       uint64_t length, uint64_t iova, int access) {
  if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
      (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return absl::InvalidArgumentError(
        "memory region: REMOTE_WRITE or REMOTE_ATOMIC asked for without LOCAL_WRITE; add it");
  }
  const uint64_t start = reinterpret_cast<uint64_t>(address);
  if (start + length < start || iova + length < iova) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory region: %u bytes at 0x%x (iova 0x%x) wrap around the address space",
                        length, start, iova));
  }
  if (size_ == capacity_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "memory region: all %u of this worker are registered; deregister some or configure more",
        capacity_));
  }
  // At most half of the slots are taken, so two draws are expected and a long run is not.
  uint32_t key;
  do {
    key = random_->Next32();
  } while (key == 0 || slots_[(key >> 8) & mask_].key != 0);
  MemoryRegion& slot = slots_[(key >> 8) & mask_];
  slot = MemoryRegion{.key = key,
                      .access = access,
                      .address = static_cast<uint8_t*>(address),
                      .length = length,
                      .iova = iova,
                      .pd = pd};
  ++size_;
  ++pd->use_count;
  return slot;
}

absl::Status RegionTable::Deregister(uint32_t key) {
  MemoryRegion& slot = slots_[(key >> 8) & mask_];
  if (key == 0 || slot.key != key) {
    return absl::NotFoundError(absl::StrFormat("memory region: no region bears key 0x%08x", key));
  }
  if (Planted(Fault::kStaleKeyAccepted)) return absl::OkStatus();
  --slot.pd->use_count;
  slot = MemoryRegion{};
  --size_;
  return absl::OkStatus();
}

AccessResult RegionTable::Check(const ProtectionDomain& pd, uint32_t key, uint64_t iova,
                                uint64_t length, int needed, uint8_t** at) const {
  if (length == 0) {
    *at = nullptr;
    return AccessResult::kOk;
  }
  const MemoryRegion* region = Find(key);
  if (region == nullptr) return AccessResult::kNoSuchKey;
  if (region->pd != &pd) return AccessResult::kWrongDomain;
  if (iova < region->iova || iova - region->iova > region->length ||
      length > region->length - (iova - region->iova)) {
    return AccessResult::kOutOfBounds;
  }
  if ((region->access & needed) != needed) return AccessResult::kNotAllowed;
  *at = region->address + (iova - region->iova);
  return AccessResult::kOk;
}

}  // namespace pollux::memory
