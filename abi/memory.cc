// Protection domains, memory regions and windows.
#include <cerrno>

#include "abi/error_number.h"
#include "abi/export.h"
#include "abi/objects.h"

namespace pollux::abi {
namespace {

// Only a hint, which a device may ignore.
constexpr unsigned kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;

ibv_mr* Register(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  constexpr unsigned kServed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                               IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;
  access &= ~kOptionalAccess;
  if (length == 0 || (access & ~kServed) != 0) {
    Failed((access & ~kServed) != 0 ? EOPNOTSUPP : EINVAL);
    return nullptr;
  }
  access &= ~static_cast<unsigned>(IBV_ACCESS_HUGETLB);
  absl::StatusOr<memory::MemoryRegion> native;
  {
    Turn turn(Of(pd->context)->world);
    memory::ProtectionDomain* domain = Of(pd)->native;
    native = (access & IBV_ACCESS_ZERO_BASED) != 0
                 ? domain->regions->Register(domain, address, length, static_cast<int>(access))
                 : domain->regions->RegisterIova(domain, address, length, iova,
                                                 static_cast<int>(access));
  }
  if (!native.ok()) {
    Failed(native.status());
    return nullptr;
  }
  auto* mr = new Mr();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->handle = mr->lkey = mr->rkey = native->key;
  mr->native = *native;
  return mr;
}

}  // namespace

POLLUX_EXPORT ibv_pd* pollux_ibv_alloc_pd(ibv_context* context) {
  absl::StatusOr<memory::ProtectionDomain*> native;
  {
    Turn turn(Of(context)->world);
    native = turn.worker().AllocPd();
  }
  if (!native.ok()) {
    Failed(native.status());
    return nullptr;
  }
  auto* pd = new Pd();
  pd->context = context;
  pd->handle = (*native)->handle;
  pd->native = *native;
  return pd;
}

POLLUX_EXPORT int pollux_ibv_dealloc_pd(ibv_pd* pd) {
  {
    Turn turn(Of(pd->context)->world);
    const absl::Status status = turn.worker().DeallocPd(Of(pd)->native);
    if (!status.ok()) return ErrorNumber(status);
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

POLLUX_EXPORT int pollux_ibv_dereg_mr(ibv_mr* mr) {
  {
    Turn turn(Of(mr->context)->world);
    const absl::Status status = turn.worker().DeregMr(Of(mr)->native);
    if (!status.ok()) return ErrorNumber(status);
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
