// Connections of rdma_cm, and the queue pairs that it makes for them.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "compat/loader/export.h"
#include "compat/rdmacm/cm_id.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/queue_pair.h"

extern "C" {
ibv_comp_channel* pollux_ibv_create_comp_channel(ibv_context* context);
int pollux_ibv_destroy_comp_channel(ibv_comp_channel* channel);
ibv_cq* pollux_ibv_create_cq(ibv_context* context, int entries, void* user,
                             ibv_comp_channel* channel, int vector);
int pollux_ibv_destroy_cq(ibv_cq* cq);
}

namespace pollux::compat {
namespace {

// A queue pair is moved in two turns, one for each way of the messages; more is a worker that has
// stopped.
constexpr int kTurnsOfBinding = 64;

// What peers may do to its memory is up to the regions that the program registers.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                        IBV_ACCESS_REMOTE_ATOMIC | memory::kAccessFlushGlobal |
                        memory::kAccessFlushPersistent;

void DestroyOwnCqs(CmId* id) {
  if (id->recv_cq != nullptr) pollux_ibv_destroy_cq(id->recv_cq);
  if (id->send_cq != nullptr) pollux_ibv_destroy_cq(id->send_cq);
  if (id->recv_cq_channel != nullptr) pollux_ibv_destroy_comp_channel(id->recv_cq_channel);
  if (id->send_cq_channel != nullptr) pollux_ibv_destroy_comp_channel(id->send_cq_channel);
  id->recv_cq = id->send_cq = nullptr;
  id->recv_cq_channel = id->send_cq_channel = nullptr;
}

bool MakeCq(CmId* id, uint32_t entries, ibv_comp_channel** channel, ibv_cq** cq) {
  *channel = pollux_ibv_create_comp_channel(id->verbs);
  if (*channel == nullptr) return false;
  *cq = pollux_ibv_create_cq(id->verbs, static_cast<int>(std::max(entries, 1u)), id, *channel, 0);
  return *cq != nullptr;
}

// Those that the program leaves to librdmacm. What it made for another queue pair, which the
// program has moved elsewhere, serves again.
bool MakeMissingCqs(CmId* id, ibv_qp_init_attr* init) {
  if (init->send_cq == nullptr) {
    if (id->send_cq == nullptr &&
        !MakeCq(id, init->cap.max_send_wr, &id->send_cq_channel, &id->send_cq)) {
      return false;
    }
    init->send_cq = id->send_cq;
  }
  if (init->recv_cq == nullptr) {
    if (id->recv_cq == nullptr &&
        !MakeCq(id, init->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq)) {
      return false;
    }
    init->recv_cq = id->recv_cq;
  }
  return true;
}

bool HasOtherCqs(const CmId& id, const ibv_qp_init_attr& init) {
  const auto differ = [](const ibv_cq* own, const ibv_cq* given) {
    return own != nullptr && given != nullptr && own != given;
  };
  return differ(id.send_cq, init.send_cq) || differ(id.recv_cq, init.recv_cq);
}

absl::Status Bind(CmId* id, Qp* qp) {
  ScopedWorkerOwnership owned(id->runtime);
  if (!owned.Has(id)) {
    return absl::InvalidArgumentError("the identifier is being destroyed, or the process exits");
  }
  std::optional<absl::Status> done;
  owned.manager().BindQp(id->native, &owned.worker(), qp->native, kAccess,
                         [&done](absl::Status status) { done = std::move(status); });
  for (int i = 0; i < kTurnsOfBinding && !done; ++i) owned.Poll();
  if (!done || !done->ok()) {
    owned.manager().ReleaseQp(id->native);
    return done ? *done : absl::InternalError("the worker did not move the queue pair to INIT");
  }
  qp->connection = id;
  id->bound = qp;
  qp->qp_base.state = qp->native->state();
  return absl::OkStatus();
}

// CM neither moves nor ends it any more on behalf of the identifier that had it.
void Release(ScopedWorkerOwnership& owned, Qp* qp) {
  CmIdBase* const id = std::exchange(qp->connection, nullptr);
  if (id == nullptr) return;
  id->bound = nullptr;
  owned.manager().ReleaseQp(id->native);
}

// librdmacm uses the queue pair in `qp` at each call. Programs move queue pairs from one identifier
// to another: uDAPL accepts with a queue pair that it created earlier. So this binds the present
// queue pair to the identifier, and CM changes its state. A datagram queue pair keeps its state.
int FollowQp(CmId* id) {
  {
    ScopedWorkerOwnership owned(id->runtime);
    ReleaseMovedQp(owned, id);
    if (id->qp == nullptr || id->bound != nullptr || id->ps == RDMA_PS_UDP) return 0;
    Qp* const qp = Of(id->qp);
    const ibv_qp_state state = qp->native->state();
    if (state != IBV_QPS_RESET && state != IBV_QPS_INIT) return Failed(EINVAL);
    Release(owned, qp);
  }
  return ZeroOrErrno(Bind(id, Of(id->qp)));
}

// The manager moves it, by messages, where librdmacm does so before the call returns.
void AwaitMove(ScopedWorkerOwnership& owned, const CmId& id,
               absl::FunctionRef<bool(ibv_qp_state)> is_there) {
  if (id.bound == nullptr) return;
  const verbs::QueuePair& native = *id.bound->native;
  for (int i = 0; i < kTurnsOfBinding && !is_there(native.state()); ++i) owned.Poll();
  id.bound->qp_base.state = native.state();
}

// As librdmacm, which moves it before it says anything: what is posted is flushed.
void EndQueuePair(ScopedWorkerOwnership& owned, const CmId& id) {
  if (id.qp == nullptr) return;
  const verbs::QueuePair& native = *Of(id.qp)->native;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  owned.worker().ModifyQp(Of(id.qp)->native, attr, IBV_QP_STATE).IgnoreError();  // from any state
  owned.Poll();
  id.qp->state = native.state();
}

// Whether an event of the identifier is the next one in its channel.
bool HasEvent(const CmId& id) {
  return Of(id.channel)->events.LookAtOldest([&id](const std::unique_ptr<CmEvent>& event) {
    return event->owner == &id;
  });
}

int MakeQp(CmId* id, ibv_pd* pd, ibv_qp_init_attr* init, uint64_t send_ops) {
  if (Runtime::IsCopy()) return -1;
  if (id->verbs == nullptr || id->qp != nullptr || init->qp_type == IBV_QPT_UC) {
    return Failed(init->qp_type == IBV_QPT_UC ? EOPNOTSUPP : EINVAL);
  }
  if (HasOtherCqs(*id, *init) || FollowQp(id) != 0) return Failed(EINVAL);
  if (pd == nullptr) pd = id->pd;
  if (init->srq == nullptr) init->srq = id->srq;
  Qp* qp = MakeMissingCqs(id, init) ? CreateQp(pd, init, send_ops) : nullptr;
  const absl::Status bound = qp == nullptr ? absl::InternalError("") : Bind(id, qp);
  if (!bound.ok()) {
    const int error = qp == nullptr ? errno : ErrorNumber(bound);
    if (qp != nullptr) DestroyQp(qp);
    DestroyOwnCqs(id);
    return Failed(error);
  }
  id->pd = pd;
  id->qp = &qp->qp_base;
  return 0;
}

// `most` stands for all that there is.
uint8_t Limited(uint8_t asked, uint8_t most, uint8_t there) {
  return asked == most ? there : asked;
}

// As librdmacm, which asks no more than the device has.
bool IsTooMuch(const rdma_conn_param* param) {
  const auto beyond = [](uint8_t asked, uint8_t most) {
    return asked != most && asked > verbs::kMaxRdAtomic;
  };
  return param != nullptr && (beyond(param->responder_resources, RDMA_MAX_RESP_RES) ||
                              beyond(param->initiator_depth, RDMA_MAX_INIT_DEPTH));
}

// A program made for Linux, where CM asks for the longest wait between the attempts, may be that
// late with its receives. Who lets its peer try for ever loses nothing by asking for the short one.
constexpr uint8_t kLongestRnrTimer = 0;  // 655 ms
constexpr uint8_t kForEver = 7;

cm::ConnectionParam Translate(const CmId& id, const rdma_conn_param* param) {
  cm::ConnectionParam native;
  native.ack_timeout = id.ack_timeout;
  // Without a word of the program: as much as the peer offers, or as there is.
  const uint8_t resources = id.offered ? id.offered->responder_resources : verbs::kMaxRdAtomic;
  const uint8_t depth = id.offered ? id.offered->initiator_depth : verbs::kMaxRdAtomic;
  native.responder_resources = resources;
  native.initiator_depth = depth;
  if (id.qp != nullptr) native.qp_num = id.qp->qp_num;
  if (param == nullptr) return native;
  native.private_data = {static_cast<const uint8_t*>(param->private_data),
                         param->private_data == nullptr ? 0u : param->private_data_len};
  native.responder_resources = Limited(param->responder_resources, RDMA_MAX_RESP_RES, resources);
  native.initiator_depth = Limited(param->initiator_depth, RDMA_MAX_INIT_DEPTH, depth);
  native.flow_control = param->flow_control != 0;
  native.retry_count = param->retry_count;
  native.rnr_retry_count = param->rnr_retry_count;
  if (param->rnr_retry_count < kForEver) native.min_rnr_timer = kLongestRnrTimer;
  native.srq = param->srq != 0;
  if (id.qp == nullptr) native.qp_num = param->qp_num;
  return native;
}

// 0, or -1 with errno. Of a queue pair that cannot be moved the manager has told the peer.
int Accept(CmId* id, const rdma_conn_param* param) {
  if (FollowQp(id) != 0) return -1;
  ScopedWorkerOwnership owned(id->runtime);
  // By the program: from there it cannot be moved.
  const bool was_moved = id->bound != nullptr && id->bound->native->state() == IBV_QPS_RTS;
  const absl::Status status = owned.manager().Accept(id->native, Translate(*id, param));
  int error = 0;
  if (status.ok()) {
    id->awaits_accept = false;
    id->accept_error = &error;
  }
  owned.Poll();
  if (!status.ok()) return CmResult(status);
  if (id->ps != RDMA_PS_UDP) {
    AwaitMove(owned, *id, [&](ibv_qp_state state) {
      if (error == 0) return state == IBV_QPS_RTS && !was_moved;
      return state == IBV_QPS_ERR || state == IBV_QPS_RESET;
    });
  }
  id->accept_error = nullptr;
  return error == 0 ? 0 : Failed(error);
}

int Reject(rdma_cm_id* id, const void* data, uint8_t length) {
  if (Runtime::IsCopy()) return -1;
  ScopedWorkerOwnership owned(Of(id)->runtime);
  const absl::Status status = owned.manager().Reject(
      Of(id)->native, {static_cast<const uint8_t*>(data), data == nullptr ? 0u : length});
  owned.Poll();
  return CmResult(status);
}

}  // namespace

void ReleaseMovedQp(ScopedWorkerOwnership& owned, CmId* id) {
  if (id->bound != nullptr && id->qp != &id->bound->qp_base) Release(owned, id->bound);
}

POLLUX_EXPORT int pollux_rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* init) {
  return MakeQp(Of(id), pd, init, 0);
}

POLLUX_EXPORT int pollux_rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* init) {
  const std::optional<uint64_t> send_ops = SendOpsOf(*init);
  if (!send_ops) return -1;
  ibv_pd* pd = (init->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? init->pd : nullptr;
  // The longer structure begins as the shorter one does.
  return MakeQp(Of(id), pd, reinterpret_cast<ibv_qp_init_attr*>(init), *send_ops);
}

POLLUX_EXPORT void pollux_rdma_destroy_qp(rdma_cm_id* id) {
  if (id->qp != nullptr && DestroyQp(Of(id->qp)) != 0) return;
  id->qp = nullptr;
  DestroyOwnCqs(Of(id));
}

POLLUX_EXPORT int pollux_rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  if (Runtime::IsCopy()) return -1;
  if (id->ps == RDMA_PS_TCP && IsTooMuch(param)) return Failed(EINVAL);
  if (FollowQp(Of(id)) != 0) return -1;
  {
    ScopedWorkerOwnership owned(Of(id)->runtime);
    const absl::Status status = owned.manager().Connect(Of(id)->native, Translate(*Of(id), param));
    if (status.ok()) Of(id)->is_connection = true;
    owned.Poll();
    if (!status.ok()) return CmResult(status);
  }
  return Complete(Of(id));
}

POLLUX_EXPORT int pollux_rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  if (Runtime::IsCopy()) return -1;
  if (id->ps == RDMA_PS_TCP && IsTooMuch(param)) return Failed(EINVAL);
  if (Accept(Of(id), param) != 0) return -1;
  if (id->ps != RDMA_PS_UDP) return Complete(Of(id));
  // No event follows the reply to a SIDR_REQ. As librdmacm: the request's own event is
  // acknowledged, or destroying the listener would wait for it.
  if (Of(id)->sync != nullptr) AcknowledgeLast(Of(id));
  return 0;
}

POLLUX_EXPORT int pollux_rdma_reject(rdma_cm_id* id, const void* data, uint8_t length) {
  return Reject(id, data, length);
}

// Enhanced connection establishment is no part of these connections: any rejection is an ordinary
// one.
POLLUX_EXPORT int pollux_rdma_reject_ece(rdma_cm_id* id, const void* data, uint8_t length) {
  return Reject(id, data, length);
}

// As librdmacm: only for an identifier whose queue pair the program has made and moved by itself.
POLLUX_EXPORT int pollux_rdma_establish(rdma_cm_id* id) {
  if (Runtime::IsCopy()) return -1;
  if (id->qp != nullptr) return Failed(EINVAL);
  ScopedWorkerOwnership owned(Of(id)->runtime);
  const absl::Status status = owned.manager().Establish(Of(id)->native);
  owned.Poll();
  return CmResult(status);
}

POLLUX_EXPORT int pollux_rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  ScopedWorkerOwnership owned(Of(id)->runtime);
  const absl::Status status = owned.manager().QueryQpAttr(*Of(id)->native, attr, mask);
  if (!status.ok()) return CmResult(status);
  if ((*mask & IBV_QP_ACCESS_FLAGS) != 0) attr->qp_access_flags = kAccess;
  return 0;
}

POLLUX_EXPORT int pollux_rdma_disconnect(rdma_cm_id* id) {
  if (Runtime::IsCopy()) return -1;
  {
    ScopedWorkerOwnership owned(Of(id)->runtime);
    ReleaseMovedQp(owned, Of(id));
    const absl::Status status = owned.manager().Disconnect(Of(id)->native);
    owned.Poll();
    // As rdma_cm, which has no error for a connection that is over or was never established.
    const bool over = absl::IsFailedPrecondition(status) && Of(id)->is_connection;
    if (over || (status.ok() && Of(id)->bound == nullptr)) EndQueuePair(owned, *Of(id));
    if (over && Of(id)->sync == nullptr) return 0;
    // A synchronous call takes the event of the end, which may have come long ago. If none is
    // queued, none will come, and the call must not wait.
    if (!status.ok() && !(over && HasEvent(*Of(id)))) return CmResult(status);
    AwaitMove(owned, *Of(id), [](ibv_qp_state state) { return state == IBV_QPS_ERR; });
  }
  return Complete(Of(id));
}

POLLUX_EXPORT int pollux_rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  if (Runtime::IsCopy()) return -1;
  ScopedWorkerOwnership owned(Of(id)->runtime);
  owned.manager().Notify(Of(id)->native, event);
  return 0;
}

}  // namespace pollux::compat
