// Completion queues, shared receive queues and multicast groups of a worker.
#include <algorithm>
#include <utility>

#include "stack/engine/loop/worker.h"
#include "stack/engine/loop/worker_parts.h"

namespace pollux::engine {

absl::StatusOr<verbs::CompletionQueue*> Worker::CreateCq(uint32_t entries,
                                                         verbs::EventHandler on_event) {
  if (entries == 0 || entries > verbs::kMaxCqEntries) {
    return absl::InvalidArgumentError(
        absl::StrFormat("completion queue of %u entries asked for; 1 to %u are allowed", entries,
                        verbs::kMaxCqEntries));
  }
  if (cqs_.size() >= config_.max_objects) return Full("completion queue", config_.max_objects);
  auto cq = std::make_unique<verbs::CompletionQueue>(entries, &events_, std::move(on_event));
  verbs::CompletionQueue* raw = cq.get();
  cqs_.emplace(raw, std::move(cq));
  return raw;
}

absl::Status Worker::DestroyCq(verbs::CompletionQueue* cq) {
  const auto found = cqs_.find(cq);
  if (found == cqs_.end()) return NotOurs("completion queue");
  if (cq->use_count() != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("completion queue still serves %u times a queue pair; destroy those first",
                        cq->use_count()));
  }
  if (cq->announced()) {
    return absl::FailedPreconditionError(
        "completion queue: its channel holds an event of it; take that first");
  }
  events_.Remove(cq);
  cq->ForgetEvents();
  destroyed_.emplace_back(std::move(found->second));
  cqs_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<verbs::SharedReceiveQueue*> Worker::CreateSrq(memory::ProtectionDomain* pd,
                                                             const ibv_srq_attr& attr,
                                                             verbs::EventHandler on_event) {
  if (!IsOurs(pd)) return NotOurs("protection domain");
  if (attr.max_wr > verbs::kMaxWorkRequests || attr.max_sge > verbs::kMaxSge) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "shared receive queue of %u requests with %u elements asked for; at most %u with %u",
        attr.max_wr, attr.max_sge, verbs::kMaxWorkRequests, verbs::kMaxSge));
  }
  if (srqs_.size() >= config_.max_objects) return Full("shared receive queue", config_.max_objects);
  auto srq = std::make_unique<verbs::SharedReceiveQueue>(pd, attr, &events_, std::move(on_event));
  ++pd->use_count;
  verbs::SharedReceiveQueue* raw = srq.get();
  srqs_.emplace(raw, std::move(srq));
  return raw;
}

absl::Status Worker::DestroySrq(verbs::SharedReceiveQueue* srq) {
  const auto found = srqs_.find(srq);
  if (found == srqs_.end()) return NotOurs("shared receive queue");
  if (srq->use_count != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "shared receive queue still serves %u queue pairs; destroy those first", srq->use_count));
  }
  --srq->pd()->use_count;
  events_.Remove(srq);
  srq->ForgetEvents();
  destroyed_.emplace_back(std::move(found->second));
  srqs_.erase(found);
  return absl::OkStatus();
}

absl::Status Worker::AttachMulticast(verbs::QueuePair* qp, const Gid& gid) {
  if (qp == nullptr || qp->type() != IBV_QPT_UD) {
    return absl::InvalidArgumentError("multicast: only UD queue pairs can be attached");
  }
  const bool group = gid.IsIpv4() ? gid.Ipv4() >> 28 == 0xE : gid.raw[0] == 0xFF;
  if (!group) return absl::InvalidArgumentError("multicast: not the address of a group");
  const auto found = groups_.find(gid);
  if (found == groups_.end()) {
    if (groups_.size() >= kMaxMulticastGroups) return Full("multicast group", kMaxMulticastGroups);
    groups_[gid].push_back(qp);
    return absl::OkStatus();
  }
  std::vector<verbs::QueuePair*>& members = found->second;
  if (std::find(members.begin(), members.end(), qp) != members.end()) return absl::OkStatus();
  if (members.size() >= kMaxMulticastMembers) {
    return Full("place in the multicast group", kMaxMulticastMembers);
  }
  members.push_back(qp);
  return absl::OkStatus();
}

absl::Status Worker::DetachMulticast(verbs::QueuePair* qp, const Gid& gid) {
  const auto found = groups_.find(gid);
  if (found == groups_.end() || std::erase(found->second, qp) == 0) {
    return absl::NotFoundError("multicast: the queue pair is not attached to this group");
  }
  if (found->second.empty()) groups_.erase(found);
  return absl::OkStatus();
}

void Worker::DispatchMulticast(const ip::Interface& interface, const wire::RocePacket& packet,
                               transport::PollContext& context) {
  const auto found = groups_.find(packet.destination());
  if (found == groups_.end() || !interface.IsOfGroup(packet.frame, packet.destination())) {
    context.counters.Count(transport::Drop::kNotForUs);
    return;
  }
  for (verbs::QueuePair* qp : found->second) {
    transport::Endpoint::Of(qp)->OnPacket(packet, context);
    AfterCall(SlotOf(*qp));
  }
}

}  // namespace pollux::engine
