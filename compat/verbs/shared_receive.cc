// Shared receive queues.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "compat/loader/export.h"
#include "compat/process/oom_reserve.h"
#include "compat/verbs/async_events.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/objects.h"

namespace pollux::compat {
namespace {

size_t BytesOf(const ibv_srq_attr& attr) {
  return std::bit_ceil(std::clamp(attr.max_wr, 1u, verbs::kMaxWorkRequests)) *
         (sizeof(verbs::RecvWqe) + std::min(attr.max_sge, verbs::kMaxSge) * sizeof(ibv_sge));
}

Srq* Create(ibv_pd* pd, void* user, ibv_srq_attr* attr) {
  if (attr->max_wr == 0) {
    Failed(EINVAL);
    return nullptr;
  }
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory(BytesOf(*attr));
  if (!memory) return nullptr;
  auto srq = std::make_unique<Srq>();
  srq->context = pd->context;
  srq->srq_context = user;
  srq->pd = pd;
  srq->owner = Of(pd->context);
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  ScopedWorkerOwnership owned(srq->owner->runtime);
  auto native = owned.worker().CreateSrq(Of(pd)->native, *attr, HandlerFor(srq.get()));
  if (!native.ok()) {
    Failed(native.status());
    return nullptr;
  }
  srq->native = *native;
  *attr = srq->native->attr();
  return srq.release();
}

}  // namespace

int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  if (Runtime::IsCopy()) [[unlikely]] {
    *bad_wr = wr;
    return ENODEV;
  }
  ScopedWorkerOwnership owned(Of(srq)->owner->runtime);
  return Of(srq)->native->PostRecv(wr, const_cast<const ibv_recv_wr**>(bad_wr));
}

ibv_srq* CreateSrqEx(ibv_context*, ibv_srq_init_attr_ex* init) {
  constexpr uint32_t kMask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const bool basic =
      (init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || init->srq_type == IBV_SRQT_BASIC;
  if ((init->comp_mask & ~kMask) != 0 || !basic) {
    Failed(EOPNOTSUPP);
    return nullptr;
  }
  if ((init->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    Failed(EINVAL);
    return nullptr;
  }
  return Create(init->pd, init->srq_context, &init->attr);
}

POLLUX_EXPORT ibv_srq* pollux_ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  return Create(pd, init->srq_context, &init->attr);
}

POLLUX_EXPORT int pollux_ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if (Runtime::IsCopy()) return ENODEV;
  const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
  // Its elements are as many as they were.
  const MemoryFor memory(resizes ? BytesOf({attr->max_wr, verbs::kMaxSge, 0}) : 0);
  if (!memory) return ENOMEM;
  ScopedWorkerOwnership owned(Of(srq)->owner->runtime);
  return ErrorNumber(Of(srq)->native->Modify(*attr, mask));
}

POLLUX_EXPORT int pollux_ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  ScopedWorkerOwnership owned(Of(srq)->owner->runtime);
  *attr = Of(srq)->native->attr();
  return 0;
}

POLLUX_EXPORT int pollux_ibv_destroy_srq(ibv_srq* srq) {
  Srq* mine = Of(srq);
  {
    ScopedWorkerOwnership owned(mine->owner->runtime);
    const absl::Status status = owned.worker().DestroySrq(mine->native);
    if (!status.ok()) return ErrorNumber(status);
  }
  EndEvents(mine);
  pthread_mutex_destroy(&srq->mutex);
  pthread_cond_destroy(&srq->cond);
  delete mine;
  return 0;
}

}  // namespace pollux::compat
