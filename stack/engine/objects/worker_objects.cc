// The objects of a worker: made, changed and destroyed as rdma-core has them.
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

// IB specification 16.4: the Q_Key of every GSI queue pair.
constexpr uint32_t kGsiQkey = 0x80010000;

// Of a queue pair that is destroyed or moved to RESET or ERR: packets of what was posted before.
constexpr int kLastPackets = 256;

// What a queue pair has completed and not acknowledged, and what was posted to it and not sent,
// leave only after the pollers, and these or a call of the program may be what ends the queue pair.
// Without an acknowledgement its peer would use up its retries. Requests are sent because an
// adapter would have sent them by now: programs post a last message and disconnect. None is sent
// again, and those for which there is no room are flushed as any that an adapter has not reached.
void SendAtLast(Endpoint& endpoint, transport::PollContext& context) {
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

// No look-up, since registering is part of every call of an upper layer.
bool Worker::IsOurs(const memory::ProtectionDomain* pd) const {
  return pd != nullptr && pd->regions == &regions_;
}

absl::StatusOr<memory::ProtectionDomain*> Worker::AllocPd() {
  if (pds_.size() >= config_.max_objects) return Full("protection domain", config_.max_objects);
  auto pd = std::make_unique<memory::ProtectionDomain>();
  pd->regions = &regions_;
  pd->handle = next_pd_handle_++;
  memory::ProtectionDomain* raw = pd.get();
  pds_.emplace(raw, std::move(pd));
  return raw;
}

absl::Status Worker::DeallocPd(memory::ProtectionDomain* pd) {
  if (!pds_.contains(pd)) return NotOurs("protection domain");
  if (pd->use_count != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "protection domain %u still has %u users (regions, queue pairs, address handles); destroy "
        "them first",
        pd->handle, pd->use_count));
  }
  pds_.erase(pd);
  return absl::OkStatus();
}

absl::StatusOr<Worker::Port*> Worker::FindPort(uint8_t port_num) {
  const size_t index = port_num == 0 ? 0 : port_num - 1;
  if (index < ports_.size()) return ports_[index].get();
  return absl::InvalidArgumentError(
      absl::StrFormat("port %u asked for; this worker has %u", port_num, ports_.size()));
}

absl::StatusOr<verbs::AddressHandle*> Worker::CreateAh(memory::ProtectionDomain* pd,
                                                       const ibv_ah_attr& attr) {
  if (!IsOurs(pd)) return NotOurs("protection domain");
  if (ahs_.size() >= config_.max_objects) return Full("address handle", config_.max_objects);
  const absl::StatusOr<Port*> port = FindPort(attr.port_num);
  if (!port.ok()) return port.status();
  transport::PollContext& context = Context(**port);
  absl::StatusOr<verbs::AddressHandle> made = (*port)->interface->MakeAddressHandle(attr, context);
  if (!made.ok()) return made.status();
  auto ah = std::make_unique<verbs::AddressHandle>(*made);
  ah->pd = reinterpret_cast<ibv_pd*>(pd);
  ++pd->use_count;
  verbs::AddressHandle* raw = ah.get();
  ahs_.emplace(raw, Handle{std::move(ah), *port});
  return raw;
}

absl::Status Worker::DestroyAh(verbs::AddressHandle* ah) {
  const auto found = ahs_.find(ah);
  if (found == ahs_.end()) return NotOurs("address handle");
  found->second.port->interface->Release(*ah);
  --reinterpret_cast<memory::ProtectionDomain*>(ah->pd)->use_count;
  ahs_.erase(found);
  return absl::OkStatus();
}

absl::Status Worker::CheckInit(const verbs::QueuePairInitAttr& init) const {
  if (init.type != IBV_QPT_RC && init.type != IBV_QPT_UC && init.type != IBV_QPT_UD) {
    return absl::InvalidArgumentError(
        absl::StrFormat("queue pair of type %d: only RC (%d), UC (%d) and UD (%d) are supported",
                        init.type, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD));
  }
  if (!IsOurs(init.pd)) return NotOurs("queue pair's protection domain");
  if (!cqs_.contains(init.send_cq)) return NotOurs("queue pair's send completion queue");
  if (!cqs_.contains(init.recv_cq)) return NotOurs("queue pair's receive completion queue");
  if (init.srq != nullptr && !srqs_.contains(init.srq)) {
    return NotOurs("queue pair's shared receive queue");
  }
  const ibv_qp_cap& cap = init.cap;
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

verbs::QueuePair* Worker::Place(Slot& slot, Qpn qpn, verbs::QueuePairInitAttr init) {
  ++init.pd->use_count;
  slot.qpn = qpn;
  slot.endpoint = std::make_unique<Endpoint>(qpn, std::move(init), &active_, &events_,
                                             dcqcn_ ? &*dcqcn_ : nullptr);
  verbs::QueuePair& qp = slot.endpoint->qp;
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
  if (free_slots_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("queue pair: all %u of worker %u are in use or in time-wait",
                        config_.max_queue_pairs, config_.index));
  }
  const uint32_t index = free_slots_.front();
  free_slots_.pop_front();
  Slot& slot = slots_[index];
  Qpn qpn;
  do {
    qpn = config_.qpn_layout.Make(config_.index, random_.Next32(), index);
  } while (qpn == slot.qpn);
  return Place(slot, qpn, std::move(init));
}

absl::StatusOr<verbs::QueuePair*> Worker::CreateGsiQp(verbs::QueuePairInitAttr init) {
  init.type = IBV_QPT_UD;
  if (absl::Status status = CheckInit(init); !status.ok()) return status;
  if (gsi_slot_ == nullptr) gsi_slot_ = std::make_unique<Slot>();
  gsi_slot_->worker = this;
  if (gsi_slot_->endpoint != nullptr) {
    return absl::AlreadyExistsError("queue pair 1 exists already on this worker");
  }
  verbs::QueuePair* qp = Place(*gsi_slot_, kGsiQpn, std::move(init));
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
  if ((mask & IBV_QP_STATE) != 0 && ends) SendAtLast(*Endpoint::Of(qp), context);
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

absl::Status Worker::DestroyQp(verbs::QueuePair* qp, uint64_t time_wait_ns) {
  if (qp == nullptr) return NotOurs("queue pair");
  Slot& slot = SlotOf(*qp);
  transport::PollContext& context = Context(PortOf(*qp));
  SendAtLast(*slot.endpoint, context);
  --qp->init().pd->use_count;
  qp->init().send_cq->Detach(qp);
  qp->init().recv_cq->Detach(qp);
  if (qp->srq() != nullptr) --qp->srq()->use_count;
  for (auto& [gid, members] : groups_) std::erase(members, qp);
  std::erase_if(groups_, [](const auto& group) { return group.second.empty(); });
  active_.Remove(qp);
  events_.Remove(qp);
  qp->ForgetEvents();
  ReleasePath(slot);
  slot.timer.Cancel();
  destroyed_.push_back(std::move(slot.endpoint));
  if (&slot == gsi_slot_.get()) return absl::OkStatus();
  if (time_wait_ns == 0) {
    free_slots_.push_back(IndexOf(slot));
  } else {
    wheel_.Arm(slot.timer, now_ns_ + time_wait_ns);
  }
  return absl::OkStatus();
}

}  // namespace pollux::engine
