// Protection domains, memory regions and windows.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "abi/error_number.h"
#include "abi/export.h"
#include "abi/objects.h"

namespace pollux::abi {
namespace {

// Only a hint, which a device may ignore.
constexpr unsigned kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;

// What of `access` means something to a region; Unimplemented for what is not served.
absl::StatusOr<int> NativeAccess(unsigned access) {
  constexpr unsigned kServed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                               IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
  access &= ~(kOptionalAccess | IBV_ACCESS_HUGETLB);
  if ((access & ~kServed) != 0) return absl::UnimplementedError("access flags");
  return static_cast<int>(access);
}

// Whether there is memory at all of it, which the kernel finds out for adapters when it takes hold
// of the pages. Stretches that wrap around are refused elsewhere.
bool IsMapped(const void* address, size_t length) {
  static const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t begin = at & ~(page_bytes - 1);
  if (at + length < at) return true;
  // It writes nothing back, but says where nothing is mapped.
  return msync(reinterpret_cast<void*>(begin), at + length - begin, MS_ASYNC) == 0 ||
         errno != ENOMEM;
}

ibv_mr* Register(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  const absl::StatusOr<int> native_access = NativeAccess(access);
  if (!native_access.ok() || length == 0) {
    Failed(native_access.ok() ? EINVAL : ErrorNumber(native_access.status()));
    return nullptr;
  }
  if (!IsMapped(address, length)) {
    Failed(EFAULT);
    return nullptr;
  }
  absl::StatusOr<memory::MemoryRegion> native;
  {
    Turn turn(Of(pd->context)->world);
    memory::ProtectionDomain* domain = Of(pd)->native;
    native = (*native_access & IBV_ACCESS_ZERO_BASED) != 0
                 ? domain->regions->Register(domain, address, length, *native_access)
                 : domain->regions->RegisterIova(domain, address, length, iova, *native_access);
    if (native.ok()) turn.registered()[native->key] = {native->address, native->length};
  }
  if (!native.ok()) {
    Failed(native.status());
    return nullptr;
  }
  ibv_mr* mr = MakeMr(pd, *native);
  mr->addr = address;
  return mr;
}

// What ibv_rereg_mr(3) asks for, with the rest as it was.
absl::StatusOr<memory::MemoryRegion> Changed(const memory::MemoryRegion& before, int flags,
                                             ibv_pd* pd, void* address, size_t length,
                                             unsigned access) {
  memory::MemoryRegion after = before;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) after.pd = Of(pd)->native;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    const absl::StatusOr<int> native_access = NativeAccess(access);
    if (!native_access.ok()) return native_access.status();
    after.access = *native_access;
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    const bool zero_based = (after.access & IBV_ACCESS_ZERO_BASED) != 0;
    after.address = static_cast<uint8_t*>(address);
    after.length = length;
    after.iova = zero_based ? 0 : reinterpret_cast<uintptr_t>(address);
  }
  return after;
}

absl::Status Reregister(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length,
                        unsigned access) {
  Turn turn(Of(mr->context)->world);
  memory::RegionTable* regions = Of(mr->pd)->native->regions;
  const memory::MemoryRegion* before = regions->Find(mr->lkey);
  if (before == nullptr) return absl::InvalidArgumentError("no such region");
  const absl::StatusOr<memory::MemoryRegion> after =
      Changed(*before, flags, pd, address, length, access);
  if (!after.ok()) return after.status();
  const absl::StatusOr<memory::MemoryRegion> changed = regions->Reregister(
      mr->lkey, after->pd, after->address, after->length, after->iova, after->access);
  if (changed.ok()) turn.registered()[mr->lkey] = {changed->address, changed->length};
  return changed.status();
}

}  // namespace

ibv_mr* MakeMr(ibv_pd* pd, const memory::MemoryRegion& native) {
  auto* mr = new Mr();
  mr->context = pd->context;
  mr->pd = pd;
  mr->length = native.length;
  mr->handle = mr->lkey = mr->rkey = native.key;
  mr->native = native;
  return mr;
}

ibv_pd* MakePd(ibv_context* context, memory::ProtectionDomain* native) {
  auto* pd = new Pd();
  pd->context = context;
  pd->handle = native->handle;
  pd->native = native;
  return pd;
}

POLLUX_EXPORT ibv_pd* pollux_ibv_alloc_pd(ibv_context* context) {
  absl::StatusOr<memory::ProtectionDomain*> native;
  {
    Turn turn(Of(context)->world);
    native = turn.worker().AllocPd();
    if (native.ok()) turn.domains()[(*native)->handle] = *native;
  }
  if (!native.ok()) {
    Failed(native.status());
    return nullptr;
  }
  return MakePd(context, *native);
}

POLLUX_EXPORT int pollux_ibv_dealloc_pd(ibv_pd* pd) {
  {
    Turn turn(Of(pd->context)->world);
    const absl::Status status = turn.worker().DeallocPd(Of(pd)->native);
    if (!status.ok()) return ErrorNumber(status);
    turn.domains().erase(pd->handle);
  }
  delete Of(pd);
  return 0;
}

POLLUX_EXPORT ibv_mr* pollux_ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return Register(pd, address, length, reinterpret_cast<uintptr_t>(address),
                  static_cast<unsigned>(access));
}

POLLUX_EXPORT ibv_mr* pollux_ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length,
                                             uint64_t iova, int access) {
  return Register(pd, address, length, iova, static_cast<unsigned>(access));
}

POLLUX_EXPORT ibv_mr* pollux_ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length,
                                              uint64_t iova, unsigned access) {
  return Register(pd, address, length, iova, access);
}

// The keys stay as they were.
POLLUX_EXPORT int pollux_ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address,
                                      size_t length, int access) {
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (moves && (address == nullptr || length == 0)) || (changes_pd && pd == nullptr) ||
      (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0)) {
    Failed(EINVAL);
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (moves && !IsMapped(address, length)) {
    Failed(EFAULT);
    return IBV_REREG_MR_ERR_INPUT;
  }
  const absl::Status status =
      Reregister(mr, flags, pd, address, length, static_cast<unsigned>(access));
  if (!status.ok()) {
    Failed(status);
    return IBV_REREG_MR_ERR_CMD;
  }
  if (changes_pd) mr->pd = pd;
  if (moves) {
    mr->addr = address;
    mr->length = length;
  }
  return 0;
}

POLLUX_EXPORT int pollux_ibv_dereg_mr(ibv_mr* mr) {
  {
    Turn turn(Of(mr->context)->world);
    const absl::Status status = turn.worker().DeregMr(Of(mr)->native);
    if (!status.ok()) return ErrorNumber(status);
    turn.registered().erase(mr->lkey);
  }
  delete Of(mr);
  return 0;
}

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type) {
  absl::StatusOr<ibv_mw*> mw;
  {
    Turn turn(Of(pd->context)->world);
    mw = turn.worker().AllocMw(Of(pd)->native, type);
  }
  if (!mw.ok()) {
    Failed(mw.status());
    return nullptr;
  }
  (*mw)->context = pd->context;
  (*mw)->pd = pd;
  return *mw;
}

int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  const ibv_mw_bind_info& info = bind->bind_info;
  if (info.mr == nullptr ? info.length != 0 : info.mr->pd != mw->pd) return EINVAL;
  Turn turn(Of(qp->context)->world);
  const int error = turn.worker().BindMw(Of(qp)->native, mw, *bind);
  turn.Poll();
  return error;
}

int DeallocMw(ibv_mw* mw) {
  Turn turn(Of(mw->context)->world);
  return ErrorNumber(turn.worker().DeallocMw(mw));
}

}  // namespace pollux::abi
