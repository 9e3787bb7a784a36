// Fast regions and windows: mapped, bound and invalidated by work requests.
#include "absl/strings/str_format.h"
#include "stack/base/planted_fault.h"
#include "stack/memory/protection_domain.h"

namespace pollux::memory {
namespace {

constexpr int kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// A window gives no local rights, but programs ask for this one as they do for regions.
constexpr int kWindowAccess = kRemoteAccess | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;

bool NeedsLocalWrite(int access) {
  return (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
}

}  // namespace

absl::StatusOr<MemoryRegion> RegionTable::AllocFast(ProtectionDomain* pd, uint32_t capacity) {
  const absl::StatusOr<MemoryRegion*> slot = Draw(pd);
  if (!slot.ok()) return slot.status();
  (*slot)->kind = KeyKind::kFastRegion;
  (*slot)->mapped = false;
  (*slot)->capacity = capacity;
  return **slot;
}

absl::StatusOr<MemoryRegion> RegionTable::RegisterFast(ProtectionDomain* pd, void* address,
                                                       uint32_t length, int access) {
  const absl::StatusOr<MemoryRegion> region = AllocFast(pd, length);
  if (!region.ok()) return region.status();
  const uint64_t at = reinterpret_cast<uint64_t>(address);
  const Mapping mapping{
      .key = region->key, .address = at, .length = length, .iova = at, .access = access};
  if (!Map(*pd, mapping)) {
    Release(slots_[(region->key >> 8) & mask_]);
    return absl::InvalidArgumentError(absl::StrFormat(
        "memory region: %u bytes with access 0x%x: a remote write needs a local one, and the bytes "
        "may not wrap around the address space",
        length, access));
  }
  MemoryRegion& slot = slots_[(region->key >> 8) & mask_];
  slot.capacity = 0;  // no work request maps it anew
  return slot;
}

absl::StatusOr<MemoryRegion> RegionTable::AllocWindow(ProtectionDomain* pd, ibv_mw_type type) {
  const absl::StatusOr<MemoryRegion*> slot = Draw(pd);
  if (!slot.ok()) return slot.status();
  (*slot)->kind = type == IBV_MW_TYPE_1 ? KeyKind::kWindowType1 : KeyKind::kWindowType2;
  (*slot)->mapped = false;
  return **slot;
}

absl::Status RegionTable::DeallocWindow(uint32_t key) {
  MemoryRegion& slot = slots_[(key >> 8) & mask_];
  if (slot.key == 0 || slot.key >> 8 != key >> 8 || !slot.is_window()) {
    return absl::NotFoundError("memory window: no window has this key");
  }
  Unbind(slot);
  Release(slot);
  return absl::OkStatus();
}

MemoryRegion* RegionTable::FindVariant(const ProtectionDomain& pd, uint32_t key) {
  MemoryRegion& slot = slots_[(key >> 8) & mask_];
  return slot.key != 0 && slot.key >> 8 == key >> 8 && slot.pd == &pd ? &slot : nullptr;
}

bool RegionTable::Map(const ProtectionDomain& pd, const Mapping& mapping) {
  MemoryRegion* region = FindVariant(pd, mapping.key);
  if (region == nullptr || region->kind != KeyKind::kFastRegion || region->mapped ||
      mapping.length > region->capacity) {
    return false;
  }
  if (NeedsLocalWrite(mapping.access) && (mapping.access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return false;
  }
  const uint64_t iova = (mapping.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : mapping.iova;
  if (mapping.address + mapping.length < mapping.address || iova + mapping.length < iova) {
    return false;
  }
  region->key = mapping.key;
  region->access = mapping.access;
  region->address = reinterpret_cast<uint8_t*>(mapping.address);
  region->length = mapping.length;
  region->iova = iova;
  region->mapped = true;
  return true;
}

bool RegionTable::Bind(const ProtectionDomain& pd, uint32_t qpn, const Mapping& mapping) {
  MemoryRegion* window = FindVariant(pd, mapping.key);
  if (window == nullptr || !window->is_window()) return false;
  const bool type_2 = window->kind == KeyKind::kWindowType2;
  // A window of type 2 is never unbound by binding, and its next key must differ from its last.
  if (type_2 && (window->mapped || mapping.length == 0 || mapping.key == window->key)) return false;
  if (mapping.length == 0) {
    Unbind(*window);
    window->key = mapping.key;
    return true;
  }
  // IB o10-36.2.2, as rxe.
  if (!type_2 && (mapping.access & IBV_ACCESS_ZERO_BASED) != 0) return false;
  const MemoryRegion* region = Find(mapping.region_key);
  if (region == nullptr || region->is_window() || region->pd != &pd || !region->mapped) {
    return false;
  }
  if ((region->access & IBV_ACCESS_MW_BIND) == 0 || (mapping.access & ~kWindowAccess) != 0 ||
      (NeedsLocalWrite(mapping.access) && (region->access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    return false;
  }
  uint8_t* at;
  if (Check(pd, mapping.region_key, mapping.address, mapping.length, 0, &at) != AccessResult::kOk) {
    return false;
  }
  Unbind(*window);
  window->key = mapping.key;
  window->access = mapping.access;
  window->address = at;
  window->length = mapping.length;
  window->iova = (mapping.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : mapping.address;
  window->region_key = mapping.region_key;
  window->qpn = qpn;
  window->mapped = true;
  ++slots_[(mapping.region_key >> 8) & mask_].windows;
  return true;
}

void RegionTable::Unbind(MemoryRegion& window) {
  if (!window.mapped) return;
  --slots_[(window.region_key >> 8) & mask_].windows;
  window.mapped = false;
}

bool RegionTable::Invalidate(MemoryRegion* slot) {
  if (slot == nullptr || !slot->mapped) return false;
  if (slot->kind == KeyKind::kWindowType2) {
    Unbind(*slot);
    return true;
  }
  if (slot->kind != KeyKind::kFastRegion || slot->windows != 0) return false;
  if (Planted(Fault::kInvalidationLost)) return true;
  slot->mapped = false;
  return true;
}

bool RegionTable::InvalidateLocal(const ProtectionDomain& pd, uint32_t key) {
  MemoryRegion& slot = slots_[(key >> 8) & mask_];
  return key != 0 && slot.key == key && slot.pd == &pd && Invalidate(&slot);
}

bool RegionTable::InvalidateRemote(const ProtectionDomain& pd, uint32_t qpn, uint32_t key) {
  const MemoryRegion& slot = slots_[(key >> 8) & mask_];
  if (slot.kind == KeyKind::kWindowType2 && slot.qpn != qpn) return false;
  if (InvalidateLocal(pd, key)) return true;
  // The owner of what RegisterFast() made may have invalidated it while the peer's SEND was on its
  // way: that costs the connection no more than the other order does.
  return key != 0 && slot.key == key && slot.pd == &pd && slot.kind == KeyKind::kFastRegion &&
         slot.capacity == 0 && !slot.mapped;
}

}  // namespace pollux::memory
