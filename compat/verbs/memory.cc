// Protection domains, memory regions and windows.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "compat/loader/export.h"
#include "compat/process/oom_reserve.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/objects.h"

namespace pollux::compat {
namespace {

// Only a hint, which a device may ignore.
constexpr unsigned kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;

// What of `access` means something to a region; Unimplemented for what is not served,
// InvalidArgument for what is not known.
absl::StatusOr<int> NativeAccess(unsigned access) {
  constexpr unsigned kServed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                               IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                               unsigned{memory::kAccessFlushGlobal};
  access &= ~(kOptionalAccess | IBV_ACCESS_HUGETLB);
  if ((access & ~(kServed | IBV_ACCESS_ON_DEMAND)) != 0) {
    return absl::InvalidArgumentError("access flags");
  }
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) return absl::UnimplementedError("paging on demand");
  return static_cast<int>(access);
}

// It writes nothing back, but says where nothing is mapped.
bool IsMapped(void* pages, size_t bytes) {
  return msync(pages, bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

// Linux 5.14. Of a page that is there: no other kernel objects to nothing.
bool KernelPopulates(uintptr_t page_bytes) {
  static const char there = 0;
  const auto page = reinterpret_cast<uintptr_t>(&there) & ~(page_bytes - 1);
  return madvise(reinterpret_cast<void*>(page), page_bytes, MADV_POPULATE_READ) == 0 ||
         errno != EINVAL;
}

// 0 when there is memory at all of it that allows what `access` does, which the kernel finds out
// for adapters when it takes hold of the pages: by populating them, as here. What is in them stays
// as it is. Stretches that wrap around are refused elsewhere.
int CheckMemory(const void* address, size_t length, int access) {
  constexpr int kWrites = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  static const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  // The kernel holds the lock of all mappings for so long: other threads' mmap() waits.
  constexpr size_t kAtOnceBytes = 16 << 20;
  static const bool kernel_populates = KernelPopulates(page_bytes);
  const auto at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t begin = at & ~(page_bytes - 1);
  if (at + length < at) return 0;
  const size_t bytes = at + length - begin;
  if (kernel_populates) {
    const int how = (access & kWrites) != 0 ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    for (size_t done = 0; done < bytes; done += kAtOnceBytes) {
      const size_t next = std::min(kAtOnceBytes, bytes - done);
      void* const pages = reinterpret_cast<void*>(begin + done);
      if (madvise(pages, next, how) == 0) continue;
      // Memory that has run out bears the number of memory that is not mapped.
      return errno == ENOMEM && IsMapped(pages, next) ? ENOMEM : EFAULT;
    }
    return 0;
  }
  return IsMapped(reinterpret_cast<void*>(begin), bytes) ? 0 : EFAULT;
}

ibv_mr* Register(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory;
  if (!memory) return nullptr;
  const absl::StatusOr<int> native_access = NativeAccess(access);
  if (!native_access.ok() || length == 0) {
    Failed(native_access.ok() ? EINVAL : ErrorNumber(native_access.status()));
    return nullptr;
  }
  if (const int error = CheckMemory(address, length, *native_access); error != 0) {
    Failed(error);
    return nullptr;
  }
  absl::StatusOr<memory::MemoryRegion> native;
  {
    ScopedWorkerOwnership owned(Of(pd->context)->runtime);
    memory::ProtectionDomain* domain = Of(pd)->native;
    native = (*native_access & IBV_ACCESS_ZERO_BASED) != 0
                 ? domain->regions->Register(domain, address, length, *native_access)
                 : domain->regions->RegisterIova(domain, address, length, iova, *native_access);
    if (native.ok()) owned.registered()[native->key] = {native->address, native->length};
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

absl::StatusOr<memory::MemoryRegion> Find(const ibv_mr* mr) {
  ScopedWorkerOwnership owned(Of(mr->context)->runtime);
  const memory::MemoryRegion* found = Of(mr->pd)->native->regions->Find(mr->lkey);
  if (found == nullptr) return absl::InvalidArgumentError("no such region");
  return *found;
}

absl::Status Reregister(const ibv_mr* mr, const memory::MemoryRegion& after) {
  ScopedWorkerOwnership owned(Of(mr->context)->runtime);
  const absl::StatusOr<memory::MemoryRegion> changed = Of(mr->pd)->native->regions->Reregister(
      mr->lkey, after.pd, after.address, after.length, after.iova, after.access);
  if (changed.ok()) owned.registered()[mr->lkey] = {changed->address, changed->length};
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
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory;
  if (!memory) return nullptr;
  absl::StatusOr<memory::ProtectionDomain*> native;
  {
    ScopedWorkerOwnership owned(Of(context)->runtime);
    native = owned.worker().AllocPd();
    if (native.ok()) owned.domains()[(*native)->handle] = *native;
  }
  if (!native.ok()) {
    Failed(native.status());
    return nullptr;
  }
  return MakePd(context, *native);
}

POLLUX_EXPORT int pollux_ibv_dealloc_pd(ibv_pd* pd) {
  {
    ScopedWorkerOwnership owned(Of(pd->context)->runtime);
    owned.deferred_ah_destroy().Sweep(owned.worker());
    const absl::Status status = owned.worker().DeallocPd(Of(pd)->native);
    if (!status.ok()) return ErrorNumber(status);
    owned.domains().erase(pd->handle);
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
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (moves && (address == nullptr || length == 0)) || (changes_pd && pd == nullptr) ||
      (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0)) {
    Failed(EINVAL);
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (Runtime::IsCopy()) return IBV_REREG_MR_ERR_CMD;
  absl::StatusOr<memory::MemoryRegion> after = Find(mr);
  if (after.ok()) {
    after = Changed(*after, flags, pd, address, length, static_cast<unsigned>(access));
  }
  if (after.ok() && (flags & ~IBV_REREG_MR_CHANGE_PD) != 0) {
    const int error = CheckMemory(after->address, after->length, after->access);
    if (error != 0) {
      Failed(error);
      return IBV_REREG_MR_ERR_INPUT;
    }
  }
  const absl::Status status = after.ok() ? Reregister(mr, *after) : after.status();
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
    ScopedWorkerOwnership owned(Of(mr->context)->runtime);
    const absl::Status status = owned.worker().DeregMr(Of(mr)->native);
    if (!status.ok()) return ErrorNumber(status);
    owned.registered().erase(mr->lkey);
  }
  delete Of(mr);
  return 0;
}

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type) {
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory;
  if (!memory) return nullptr;
  absl::StatusOr<ibv_mw*> mw;
  {
    ScopedWorkerOwnership owned(Of(pd->context)->runtime);
    mw = owned.worker().AllocMw(Of(pd)->native, type);
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
  if (Runtime::IsCopy()) return ENODEV;
  const ibv_mw_bind_info& info = bind->bind_info;
  if (info.mr == nullptr ? info.length != 0 : info.mr->pd != mw->pd) return EINVAL;
  ScopedWorkerOwnership owned(Of(qp->context)->runtime);
  const int error = owned.worker().BindMw(Of(qp)->native, mw, *bind);
  owned.Poll();
  return error;
}

int DeallocMw(ibv_mw* mw) {
  ScopedWorkerOwnership owned(Of(mw->context)->runtime);
  return ErrorNumber(owned.worker().DeallocMw(mw));
}

}  // namespace pollux::compat
