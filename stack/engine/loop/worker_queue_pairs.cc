// The queue pairs of a worker: made, changed and destroyed as rdma-core has them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/loop/worker_parts.h"
#include "stack/transport/rc/rc_responder.h"

namespace pollux::engine {
namespace {

using transport::Endpoint;

// Of a queue pair that is destroyed or moved to RESET or ERR: packets of what was posted before.
constexpr int kLastPackets = 256;

// What a queue pair has completed and not acknowledged, and what was posted to it and not sent,
// leave only after the pollers, and these or a call of the program may be what ends the queue pair.
// Without an acknowledgement its peer would use up its retries. Requests are sent because an
// adapter would have sent them by now: programs post a last message and disconnect. None is sent
// again, and those for which there is no room are flushed as any that an adapter has not reached.
void SendPostedBeforeLeavingRts(Endpoint& endpoint, transport::PollContext& context) {
  transport::Egress& egress = context.egress;
  if (egress.room() < transport::RcResponder::kLastAcks) egress.Flush(context.now_ns);
  endpoint.AcknowledgeAtLast(context);
  for (int left = kLastPackets; left > 0 && endpoint.qp.sends();) {
    if (egress.room() == 0) egress.Flush(context.now_ns);
    const int budget = std::min<int>(left, egress.room());
    egress.BeginTurn(std::numeric_limits<uint32_t>::max());
    if (budget == 0 || !endpoint.Transmit(context, budget)) return;
    left -= budget;
  }
}

}  // namespace

absl::StatusOr<verbs::AddressHandle*> Worker::CreateAh(memory::ProtectionDomain* pd,
                                                       const ibv_ah_attr& attr) {
  if (!memory_.Owns(pd)) return NotOurs("protection domain");
  const absl::StatusOr<Port*> port = FindPort(attr.port_num);
  if (!port.ok()) return port.status();
  return ahs_.Create(pd, attr, (*port)->interface, Context(**port));
}

absl::Status Worker::CheckInit(const verbs::QueuePairInitAttr& init) const {
  if (init.type != IBV_QPT_RC && init.type != IBV_QPT_UC && init.type != IBV_QPT_UD) {
    return absl::InvalidArgumentError(
        absl::StrFormat("queue pair of type %d: only RC (%d), UC (%d) and UD (%d) are supported",
                        init.type, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD));
  }
  if (!memory_.Owns(init.pd)) return NotOurs("queue pair's protection domain");
  if (!cqs_.contains(init.send_cq)) return NotOurs("queue pair's send completion queue");
  if (!cqs_.contains(init.recv_cq)) return NotOurs("queue pair's receive completion queue");
  if (init.srq != nullptr && !srqs_.contains(init.srq)) {
    return NotOurs("queue pair's shared receive queue");
  }
  ibv_qp_cap cap = init.cap;
  // ibv_create_qp(3) ignores them then.
  if (init.srq != nullptr) cap.max_recv_wr = cap.max_recv_sge = 0;
  if (cap.max_send_wr > verbs::kMaxWorkRequests || cap.max_recv_wr > verbs::kMaxWorkRequests ||
      cap.max_send_sge > verbs::kMaxSge || cap.max_recv_sge > verbs::kMaxSge ||
      cap.max_inline_data > verbs::kMaxInline) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "queue pair: %u send and %u receive requests, %u and %u elements, %u inline bytes asked "
        "for; at most %u requests, %u elements, %u bytes",
        cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data,
        verbs::kMaxWorkRequests, verbs::kMaxSge, verbs::kMaxInline));
  }
  return absl::OkStatus();
}

absl::StatusOr<verbs::QueuePair*> Worker::Place(Slot& slot, verbs::QueuePairInitAttr init) {
  auto endpoint = std::make_unique<Endpoint>(slot.qpn, std::move(init), &scheduler_.active(),
                                             &events_, dcqcn_ ? &*dcqcn_ : nullptr);
  if (!endpoint->qp.has_memory()) {
    qps_.Release(slot);
    return NoMemory("queue pair");
  }
  slot.endpoint = std::move(endpoint);
  verbs::QueuePair& qp = slot.endpoint->qp;
  ++qp.init().pd->use_count;
  qp.init().send_cq->Attach(&qp);
  qp.init().recv_cq->Attach(&qp);
  if (qp.srq() != nullptr) ++qp.srq()->use_count;
  if (qp.type() == IBV_QPT_UD && !ports_.empty()) {
    qp.SetPortMtu(ports_[0]->interface->active_mtu());
  }
  return &qp;
}

absl::StatusOr<verbs::QueuePair*> Worker::CreateQp(verbs::QueuePairInitAttr init) {
  if (absl::Status status = CheckInit(init); !status.ok()) return status;
  Slot* const slot = qps_.Take();
  if (slot == nullptr) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "queue pair: all %u of worker %u are in use", config_.max_queue_pairs, config_.index));
  }
  return Place(*slot, std::move(init));
}

absl::StatusOr<verbs::QueuePair*> Worker::CreateGsiQp(verbs::QueuePairInitAttr init) {
  init.type = IBV_QPT_UD;
  if (absl::Status status = CheckInit(init); !status.ok()) return status;
  Slot* const slot = qps_.TakeGsi();
  if (slot == nullptr) {
    return absl::AlreadyExistsError("queue pair 1 exists already on this worker");
  }
  const absl::StatusOr<verbs::QueuePair*> placed = Place(*slot, std::move(init));
  if (!placed.ok()) return placed.status();
  verbs::QueuePair* const qp = *placed;
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qkey = kGsiQkey;
  attr.sq_psn = random_.Next32() & Psn::kMask;
  constexpr std::pair<ibv_qp_state, int> kSteps[] = {
      {IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
      {IBV_QPS_RTR, 0},
      {IBV_QPS_RTS, IBV_QP_SQ_PSN}};
  for (const auto& [state, mask] : kSteps) {
    attr.qp_state = state;
    if (absl::Status status = ModifyQp(qp, attr, mask | IBV_QP_STATE); !status.ok()) return status;
  }
  return qp;
}

absl::Status Worker::ModifyQp(verbs::QueuePair* qp, const ibv_qp_attr& attr, int mask) {
  if ((mask & IBV_QP_PORT) != 0) {
    if (const absl::StatusOr<Port*> port = FindPort(attr.port_num); !port.ok()) {
      return port.status();
    }
  }
  Slot& slot = SlotOf(*qp);
  Port& port = PortOf(*qp);
  // A longer frame would stay first in the queue of net_tap, which then sends nothing any more, and
  // net_af_xdp would copy it beyond the end of a buffer.
  const ibv_mtu most = port.interface->active_mtu();
  if ((mask & IBV_QP_PATH_MTU) != 0 && attr.path_mtu > most) {
    return absl::InvalidArgumentError(
        absl::StrFormat("modify queue pair: path_mtu is %u; the MTU of the port allows at most %u "
                        "(%u bytes), the active_mtu of ibv_query_port",
                        attr.path_mtu, most, 128u << most));
  }
  transport::PollContext& context = Context(port);
  const verbs::AddressHandle path_before = qp->path;
  const bool new_path = (mask & IBV_QP_AV) != 0;
  if (new_path) {
    const absl::StatusOr<verbs::AddressHandle> path =
        port.interface->MakeAddressHandle(attr.ah_attr, context);
    if (!path.ok()) return path.status();
    qp->path = *path;
  }
  const bool ends = attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR;
  if ((mask & IBV_QP_STATE) != 0 && ends && !new_path) {
    SendPostedBeforeLeavingRts(*Endpoint::Of(qp), context);
  }
  const absl::Status status = Endpoint::Of(qp)->Modify(attr, mask, context);
  if (new_path) {
    // Whichever of the two paths is not the queue pair's any more.
    const verbs::AddressHandle& unused = status.ok() ? path_before : qp->path;
    if (!status.ok() || slot.path_port_num != 0) port.interface->Release(unused);
    if (status.ok()) slot.path_port_num = port.port_num;
    if (!status.ok()) qp->path = path_before;
  }
  if (status.ok() && (mask & IBV_QP_PORT) != 0 && qp->type() == IBV_QPT_UD) {
    qp->SetPortMtu(PortOf(*qp).interface->active_mtu());
  }
  if (qp->state() == IBV_QPS_RESET) ReleasePath(slot);
  AfterCall(slot);
  return status;
}

void Worker::ReleasePath(Slot& slot) {
  if (slot.path_port_num == 0) return;
  ports_[slot.path_port_num - 1]->interface->Release(slot.endpoint->qp.path);
  slot.endpoint->qp.path = verbs::AddressHandle{};
  slot.path_port_num = 0;
}

absl::Status Worker::DestroyQp(verbs::QueuePair* qp) {
  if (qp == nullptr) return NotOurs("queue pair");
  Slot& slot = SlotOf(*qp);
  transport::PollContext& context = Context(PortOf(*qp));
  SendPostedBeforeLeavingRts(*slot.endpoint, context);
  --qp->init().pd->use_count;
  qp->init().send_cq->Detach(qp);
  qp->init().recv_cq->Detach(qp);
  if (qp->srq() != nullptr) --qp->srq()->use_count;
  groups_.Remove(qp);
  scheduler_.active().Remove(qp);
  events_.Remove(qp);
  qp->ForgetEvents();
  ReleasePath(slot);
  slot.timer.Cancel();
  // By a message handler: no call is to follow.
  if (burst_ != nullptr && burst_->called == &slot) burst_->called = nullptr;
  destroyed_.push_back(std::move(slot.endpoint));
  qps_.Release(slot);
  return absl::OkStatus();
}

void Worker::OnQueuePairTimer(void* context, Slot& slot) {
  Worker& worker = *static_cast<Worker*>(context);
  if (slot.endpoint->deadline_ns() <= worker.now_ns_) {
    slot.endpoint->OnDeadline(worker.Context(worker.PortOf(slot.endpoint->qp)));
  }
  worker.AfterCall(slot);
}

}  // namespace pollux::engine
