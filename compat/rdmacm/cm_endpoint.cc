// Endpoints of rdma_cm: identifiers whose calls wait. rdma_create_ep(3), rdma_get_request(3).
#include <cerrno>

#include "compat/loader/export.h"
#include "compat/rdmacm/cm_id.h"
#include "compat/verbs/error_number.h"

extern "C" {
int pollux_rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                          rdma_port_space port_space);
int pollux_rdma_destroy_id(rdma_cm_id* id);
int pollux_rdma_bind_addr(rdma_cm_id* id, sockaddr* address);
int pollux_rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                             int timeout_ms);
int pollux_rdma_resolve_route(rdma_cm_id* id, int timeout_ms);
int pollux_rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* init);
void pollux_rdma_destroy_qp(rdma_cm_id* id);
int pollux_ibv_destroy_srq(ibv_srq* srq);
}

namespace pollux::compat {
namespace {

constexpr int kResolveTimeoutMs = 2000;

int ResolveAndMakeQp(rdma_cm_id* id, const rdma_addrinfo& info, ibv_pd* pd,
                     ibv_qp_init_attr* init) {
  if (pollux_rdma_resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, kResolveTimeoutMs) != 0 ||
      pollux_rdma_resolve_route(id, kResolveTimeoutMs) != 0) {
    return -1;
  }
  if (init == nullptr) return 0;
  init->qp_type = id->qp_type;
  return pollux_rdma_create_qp(id, pd, init);
}

int BindListener(rdma_cm_id* id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* init) {
  if (pollux_rdma_bind_addr(id, info.ai_src_addr) != 0) return -1;
  if (pd != nullptr) id->pd = pd;  // of its requests too
  if (init != nullptr) Of(id)->qp_of_requests = *init;
  return 0;
}

}  // namespace

POLLUX_EXPORT int pollux_rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
                                        ibv_qp_init_attr* init) {
  // Of a listener too, which would wait for peers that cannot come.
  if (info->ai_qp_type != 0 && info->ai_qp_type != IBV_QPT_RC && info->ai_qp_type != IBV_QPT_UD) {
    return Failed(EOPNOTSUPP);
  }
  rdma_cm_id* made = nullptr;
  if (pollux_rdma_create_id(nullptr, &made, nullptr,
                            static_cast<rdma_port_space>(info->ai_port_space)) != 0) {
    return -1;
  }
  made->qp_type = static_cast<ibv_qp_type>(info->ai_qp_type);
  const bool passive = (info->ai_flags & RAI_PASSIVE) != 0;
  if ((passive ? BindListener(made, *info, pd, init) : ResolveAndMakeQp(made, *info, pd, init)) !=
      0) {
    const int error = errno;
    pollux_rdma_destroy_id(made);
    return Failed(error);
  }
  *id = made;
  return 0;
}

POLLUX_EXPORT int pollux_rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* init) {
  if (id->verbs == nullptr) return Failed(EINVAL);
  if ((init->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    init->pd = id->pd;
    init->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  }
  id->srq = CreateSrqEx(id->verbs, init);
  if (id->srq == nullptr) return -1;
  id->pd = init->pd;
  return 0;
}

POLLUX_EXPORT int pollux_rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* init) {
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = init->srq_context;
  extended.attr = init->attr;
  extended.pd = pd;
  if (pd != nullptr) extended.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  const int result = pollux_rdma_create_srq_ex(id, &extended);
  init->attr = extended.attr;
  return result;
}

POLLUX_EXPORT void pollux_rdma_destroy_srq(rdma_cm_id* id) {
  if (id->srq != nullptr && pollux_ibv_destroy_srq(id->srq) == 0) id->srq = nullptr;
}

POLLUX_EXPORT void pollux_rdma_destroy_ep(rdma_cm_id* id) {
  pollux_rdma_destroy_qp(id);
  pollux_rdma_destroy_srq(id);
  pollux_rdma_destroy_id(id);
}

POLLUX_EXPORT int pollux_rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  CmId* mine = Of(listener);
  if (Runtime::IsCopy()) return -1;
  // Of a listener with a channel, requests come as events.
  if (mine->sync == nullptr) return Failed(EINVAL);
  if (Complete(mine) != 0) return -1;
  if (listener->event->event != RDMA_CM_EVENT_CONNECT_REQUEST) return Failed(EINVAL);
  rdma_cm_id* request = listener->event->id;
  request->event = std::exchange(listener->event, nullptr);
  int result = request->channel == listener->channel ? Migrate(Of(request), nullptr) : 0;
  if (result == 0 && mine->qp_of_requests) {
    ibv_qp_init_attr init = *mine->qp_of_requests;
    init.qp_type = request->qp_type;
    result = pollux_rdma_create_qp(request, listener->pd, &init);
  }
  if (result != 0) {
    const int error = errno;
    pollux_rdma_destroy_id(request);
    return Failed(error);
  }
  *id = request;
  return 0;
}

}  // namespace pollux::compat
