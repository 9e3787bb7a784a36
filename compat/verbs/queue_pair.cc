// Queue pairs: made, changed, posted to, destroyed.
#include "compat/verbs/queue_pair.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "compat/loader/export.h"
#include "compat/process/forked_child.h"
#include "compat/process/log_once.h"
#include "compat/process/oom_reserve.h"
#include "compat/verbs/async_events.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/objects.h"
#include "compat/verbs/resolved_ah.h"

namespace pollux::compat {
namespace {

constexpr uint64_t kWithFlush = 1 << 11;  // IBV_QP_EX_WITH_FLUSH of rdma-core 45 and later
constexpr uint64_t kSendOps =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
    IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE | kWithFlush;

// As rxe: where the elements of a request fit, so much inline data does, asked for or not.
uint32_t InlineBytes(const ibv_qp_cap& asked) {
  const size_t element_bytes = std::max(asked.max_send_sge, 1u) * sizeof(ibv_sge);
  return std::max(asked.max_inline_data,
                  static_cast<uint32_t>(std::min<size_t>(element_bytes, verbs::kMaxInline)));
}

absl::StatusOr<verbs::QueuePairInitAttr> Translate(ibv_pd* pd, const ibv_qp_init_attr& init,
                                                   Qp* qp) {
  if (init.send_cq == nullptr || init.recv_cq == nullptr) {
    return absl::InvalidArgumentError("queue pair without a completion queue");
  }
  verbs::QueuePairInitAttr native;
  native.type = init.qp_type;
  native.pd = Of(pd)->native;
  native.send_cq = Of(init.send_cq)->native;
  native.recv_cq = Of(init.recv_cq)->native;
  native.srq = init.srq == nullptr ? nullptr : Of(init.srq)->native;
  native.cap = init.cap;
  native.cap.max_inline_data = InlineBytes(init.cap);
  native.sq_sig_all = init.sq_sig_all != 0;
  native.on_event = HandlerFor(qp);
  return native;
}

enum class Completions : uint8_t { kAll, kOfReceives };

void RemoveFrom(verbs::CompletionQueue* cq, uint32_t qp_num, Completions which) {
  if (cq->overrun()) return;
  ibv_wc wc;
  for (uint32_t left = cq->size(); left > 0; --left) {
    cq->Poll(1, &wc);
    const bool receive = (wc.opcode & IBV_WC_RECV) != 0;
    if (wc.qp_num != qp_num || (which == Completions::kOfReceives && !receive)) cq->Push(wc);
  }
}

// What a queue pair has completed and nobody has polled. The others keep their order.
void RemoveCompletions(const ibv_qp& qp, Completions which) {
  RemoveFrom(Of(qp.send_cq)->native, qp.qp_num, which);
  if (qp.recv_cq != qp.send_cq) RemoveFrom(Of(qp.recv_cq)->native, qp.qp_num, which);
}

// At most, of the queues of a queue pair. `builds`: it has a WorkRequestChain.
size_t BytesOf(const ibv_qp_init_attr& init, bool builds) {
  ibv_qp_cap asked = init.cap;
  if (init.srq != nullptr) asked.max_recv_wr = asked.max_recv_sge = 0;
  const auto requests = [](uint32_t count) {
    return std::clamp(count, 1u, verbs::kMaxWorkRequests);
  };
  const auto elements = [](uint32_t count) { return std::clamp(count, 1u, verbs::kMaxSge); };
  const ibv_qp_cap cap = {.max_send_wr = requests(asked.max_send_wr),
                          .max_recv_wr = requests(asked.max_recv_wr),
                          .max_send_sge = elements(asked.max_send_sge),
                          .max_recv_sge = elements(asked.max_recv_sge),
                          .max_inline_data = std::min(InlineBytes(asked), verbs::kMaxInline)};
  const size_t sends = std::bit_ceil(cap.max_send_wr), receives = std::bit_ceil(cap.max_recv_wr);
  return sends *
             (sizeof(verbs::SendWqe) + cap.max_send_sge * sizeof(ibv_sge) + cap.max_inline_data) +
         receives * (sizeof(verbs::PostedRecv) +
                     (cap.max_recv_sge > 1 ? cap.max_recv_sge * sizeof(ibv_sge) : 0)) +
         (builds ? WorkRequestChain::BytesOf(cap) : 0);
}

// The link to the first request that is not for programs, or to none: IBV_WR_DRIVER1 and what lies
// behind it are this side's own.
ibv_send_wr** LinkToForbidden(ibv_send_wr** link) {
  while (*link != nullptr && (*link)->opcode < IBV_WR_DRIVER1) link = &(*link)->next;
  return link;
}

int PostIn(ScopedWorkerOwnership& owned, Qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (Runtime::IsCopy()) [[unlikely]] {
    *bad_wr = wr;
    return ENODEV;
  }
  const int error = qp->native->PostSend(wr, const_cast<const ibv_send_wr**>(bad_wr));
  owned.PollAfterPost();
  return error;
}

// What stands before the forbidden one is posted all the same.
int PostSendBefore(ibv_send_wr** link, ibv_qp* qp, ibv_send_wr** first, ibv_send_wr** bad_wr) {
  ibv_send_wr* const forbidden = std::exchange(*link, nullptr);
  const int error = *first == nullptr ? 0 : PostSend(qp, *first, bad_wr);
  *link = forbidden;
  if (error != 0) return error;
  *bad_wr = forbidden;
  return EINVAL;
}

}  // namespace

Qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* init, uint64_t send_ops) {
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory(BytesOf(*init, send_ops != 0));
  if (!memory) return nullptr;
  auto qp = std::make_unique<Qp>();
  qp->owner = Of(pd->context);
  ibv_qp& base = qp->qp_base;
  {
    ScopedWorkerOwnership owned(qp->owner->runtime);
    absl::StatusOr<verbs::QueuePairInitAttr> translated = Translate(pd, *init, qp.get());
    absl::StatusOr<verbs::QueuePair*> native =
        translated.ok() ? owned.worker().CreateQp(*std::move(translated))
                        : absl::StatusOr<verbs::QueuePair*>(translated.status());
    if (!native.ok()) {
      if (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UC &&
          init->qp_type != IBV_QPT_UD) {
        static LogOnce log_once;
        log_once(native.status());
        Failed(EOPNOTSUPP);
      } else {
        static LogOnce log_once;
        // libfabric tries how much inline data there may be.
        if (init->cap.max_inline_data <= verbs::kMaxInline) log_once(native.status());
        Failed(native.status());
      }
      return nullptr;
    }
    qp->native = *native;
    if (init->qp_type == IBV_QPT_UD) owned.deferred_ah_destroy().AddSender(qp->native);
    base.qp_num = qp->native->qpn().value;
    init->cap = qp->native->init().cap;
  }
  base.context = pd->context;
  base.qp_context = init->qp_context;
  base.pd = pd;
  base.send_cq = init->send_cq;
  base.recv_cq = init->recv_cq;
  base.srq = init->srq;
  base.handle = base.qp_num;
  base.state = IBV_QPS_RESET;
  base.qp_type = init->qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  if (send_ops != 0) SetBuilder(qp.get());
  return qp.release();
}

std::optional<uint64_t> SendOpsOf(const ibv_qp_init_attr_ex& init) {
  constexpr uint32_t kMask =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  const bool ops_given = (init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const bool flags_given = (init.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
  const uint64_t ops = ops_given ? init.send_ops_flags : 0;
  if ((init.comp_mask & ~kMask) != 0 || (ops & ~kSendOps) != 0 ||
      (flags_given && init.create_flags != 0)) {
    Failed(EOPNOTSUPP);
    return std::nullopt;
  }
  return ops;
}

ibv_qp* CreateQpEx(ibv_context*, ibv_qp_init_attr_ex* init) {
  const std::optional<uint64_t> send_ops = SendOpsOf(*init);
  if (!send_ops) return nullptr;
  if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    Failed(EINVAL);
    return nullptr;
  }
  // The longer structure begins as the shorter one does; ibv_create_qp_ex() counts on it too.
  Qp* qp = CreateQp(init->pd, reinterpret_cast<ibv_qp_init_attr*>(init), *send_ops);
  return qp == nullptr ? nullptr : &qp->qp_base;
}

namespace {

// What it uses may be destroyed.
void EndUses(verbs::QueuePair* qp) {
  --qp->init().pd->use_count;
  qp->init().send_cq->Detach(qp);
  qp->init().recv_cq->Detach(qp);
  if (qp->srq() != nullptr) --qp->srq()->use_count;
}

void LeaveGroup(const Qp& qp, const Gid& group, uint16_t vlan) {
  qp.owner->runtime->device().LeaveMulticast(group, vlan).IgnoreError();  // it was joined
}

// In a copy the native one stays: what the worker would send to the peer at its end takes frames
// that are the other process's.
absl::Status EndNative(ScopedWorkerOwnership& owned, Qp* qp) {
  if (ForkedChild::Is()) {
    EndUses(qp->native);
    owned.deferred_ah_destroy().RemoveSender(qp->native);
    return absl::OkStatus();
  }
  if (qp->connection != nullptr) owned.manager().ReleaseQp(qp->connection->native);
  const absl::Status status = owned.worker().DestroyQp(qp->native);
  if (!status.ok()) return status;
  owned.deferred_ah_destroy().RemoveSender(qp->native);
  owned.deferred_ah_destroy().Sweep(owned.worker());
  for (const auto& [group, vlan] : qp->groups) LeaveGroup(*qp, group, vlan);
  qp->groups.clear();
  // Providers of adapters remove all, that of rxe nothing. Programs count on the end of what they
  // have sent when they close at the peer's word; what they have received they answer by a new
  // receive, on a queue pair whose memory they have freed (libfabric).
  RemoveCompletions(qp->qp_base, Completions::kOfReceives);
  return absl::OkStatus();
}

}  // namespace

int DestroyQp(Qp* qp) {
  {
    ScopedWorkerOwnership owned(qp->owner->runtime);
    if (const absl::Status status = EndNative(owned, qp); !status.ok()) return ErrorNumber(status);
    // What was posted before leaves the port with it.
    owned.Poll();
    if (CmIdBase* id = std::exchange(qp->connection, nullptr); id != nullptr) {
      id->bound = nullptr;
      if (id->qp == &qp->qp_base) id->qp = nullptr;
    }
  }
  EndEvents(qp);
  pthread_mutex_destroy(&qp->qp_base.mutex);
  pthread_cond_destroy(&qp->qp_base.cond);
  delete qp;
  return 0;
}

int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  ibv_send_wr** const link = LinkToForbidden(&wr);
  if (*link != nullptr) [[unlikely]]
    return PostSendBefore(link, qp, &wr, bad_wr);
  ScopedWorkerOwnership owned(Of(qp)->owner->runtime);
  return PostIn(owned, Of(qp), wr, bad_wr);
}

int PostChain(Qp* qp, ibv_send_wr* first) {
  if (Runtime::IsCopy()) [[unlikely]]
    return ENODEV;
  ScopedWorkerOwnership owned(qp->owner->runtime);
  if (first->next != nullptr) {
    if (const int error = qp->native->CheckSends(first); error != 0) return error;
  }
  ibv_send_wr* bad = nullptr;
  return PostIn(owned, qp, first, &bad);
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  if (Runtime::IsCopy()) [[unlikely]] {
    *bad_wr = wr;
    return ENODEV;
  }
  ScopedWorkerOwnership owned(Of(qp)->owner->runtime);
  return Of(qp)->native->PostRecv(wr, const_cast<const ibv_recv_wr**>(bad_wr));
}

namespace {

// Where nothing else would tell the program of a peer that is not found: a reliable connection
// repeats what it sends until it is. What else is wrong the change itself says.
absl::Status FindPeer(const ibv_qp& qp, const ibv_qp_attr& attr, int mask) {
  constexpr int kMoves = IBV_QP_STATE | IBV_QP_AV;
  const bool moves = (mask & kMoves) == kMoves && attr.qp_state == IBV_QPS_RTR;
  if (qp.qp_type != IBV_QPT_UC || !moves || qp.state != IBV_QPS_INIT) return absl::OkStatus();
  const absl::StatusOr<verbs::AddressHandle*> peer = CreateResolvedAh(Of(qp.pd), attr.ah_attr);
  if (absl::IsDeadlineExceeded(peer.status())) return peer.status();
  if (!peer.ok()) return absl::OkStatus();
  ScopedWorkerOwnership owned(Of(qp.context)->runtime);
  return owned.worker().DestroyAh(*peer);
}

Gid ToGid(const ibv_gid& gid) {
  Gid group;
  std::copy(std::begin(gid.raw), std::end(gid.raw), group.raw.begin());
  return group;
}

// The call names no VLAN: that of the address from which the port sends to the group.
uint16_t VlanFor(const ip::Interface& interface, const Gid& group) {
  const absl::StatusOr<uint8_t> source = interface.SourceIndex(group);
  return source.ok() ? interface.GidVlan(*source) : kNoVlan;
}

// Adapters receive a group's frames only after the interface has joined it, and snooping switches
// forward them only after a membership report.
absl::Status AttachToGroup(ScopedWorkerOwnership& owned, Qp* qp, const Gid& group) {
  absl::Status status = owned.worker().AttachMulticast(qp->native, group);
  if (!status.ok() || qp->groups.contains(group)) return status;
  const uint16_t vlan = VlanFor(owned.interface(), group);
  status = qp->owner->runtime->device().JoinMulticast(group, vlan);
  if (!status.ok()) {
    owned.worker().DetachMulticast(qp->native, group).IgnoreError();  // it is attached
    return status;
  }
  qp->groups[group] = vlan;
  owned.Poll();  // sends the report
  return absl::OkStatus();
}

}  // namespace

absl::Status DetachFromGroup(ScopedWorkerOwnership& owned, Qp* qp, const Gid& group) {
  // It may be detached already: CM detaches the queue pair of an identifier that leaves the group.
  const absl::Status status = owned.worker().DetachMulticast(qp->native, group);
  if (const auto joined = qp->groups.find(group); joined != qp->groups.end()) {
    LeaveGroup(*qp, group, joined->second);
    qp->groups.erase(joined);
    owned.Poll();  // sends the report
  }
  return status;
}

POLLUX_EXPORT ibv_qp* pollux_ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  Qp* qp = CreateQp(pd, init, 0);
  return qp == nullptr ? nullptr : &qp->qp_base;
}

// Null for one that was not made to build work requests.
POLLUX_EXPORT ibv_qp_ex* pollux_ibv_qp_to_qp_ex(ibv_qp* qp) {
  return Of(qp)->wr_start == nullptr ? nullptr : Of(qp);
}

POLLUX_EXPORT int pollux_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (Runtime::IsCopy()) return ENODEV;
  if (const absl::Status status = FindPeer(*qp, *attr, mask); !status.ok()) {
    static LogOnce log_once;
    log_once(status);
    return ErrorNumber(status);
  }
  // As rxe: programs draw PSNs that are too long.
  ibv_qp_attr native = *attr;
  native.sq_psn &= Psn::kMask;
  native.rq_psn &= Psn::kMask;
  const bool new_path = (mask & IBV_QP_AV) != 0;
  if (new_path) native.ah_attr = WithDefaultHopLimit(attr->ah_attr);
  ScopedWorkerOwnership owned(Of(qp)->owner->runtime);
  const absl::Status status = owned.worker().ModifyQp(Of(qp)->native, native, mask);
  // ibv_query_qp() returns what the program gave.
  if (status.ok() && new_path) Of(qp)->native->attr.ah_attr = attr->ah_attr;
  qp->state = Of(qp)->native->state();
  owned.Poll();
  if (status.ok() && (mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET) {
    // As providers do.
    RemoveCompletions(*qp, Completions::kAll);
  }
  if (!status.ok()) {
    static LogOnce log_once;
    log_once(status);
  }
  return ErrorNumber(status);
}

POLLUX_EXPORT int pollux_ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int /*mask*/,
                                      ibv_qp_init_attr* init) {
  {
    ScopedWorkerOwnership owned(Of(qp)->owner->runtime);
    engine::Worker::QueryQp(*Of(qp)->native, attr, init);
  }
  qp->state = attr->qp_state;
  init->qp_context = qp->qp_context;
  init->send_cq = qp->send_cq;
  init->recv_cq = qp->recv_cq;
  init->srq = qp->srq;
  return 0;
}

POLLUX_EXPORT int pollux_ibv_destroy_qp(ibv_qp* qp) { return DestroyQp(Of(qp)); }

// Payload is placed in the order of its addresses, but what a reader sees of it meanwhile is not
// promised.
POLLUX_EXPORT int pollux_ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }

POLLUX_EXPORT int pollux_ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  if (Runtime::IsCopy()) return ENODEV;
  ScopedWorkerOwnership owned(Of(qp)->owner->runtime);
  return ErrorNumber(AttachToGroup(owned, Of(qp), ToGid(*gid)));
}

POLLUX_EXPORT int pollux_ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  if (Runtime::IsCopy()) return ENODEV;
  ScopedWorkerOwnership owned(Of(qp)->owner->runtime);
  const absl::Status status = DetachFromGroup(owned, Of(qp), ToGid(*gid));
  return absl::IsNotFound(status) ? EINVAL : ErrorNumber(status);
}

}  // namespace pollux::compat
