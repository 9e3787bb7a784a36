#include "stack/engine/objects/shared_receive_queue_table.h"

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/verbs/limits.h"

namespace pollux::engine {

absl::StatusOr<verbs::SharedReceiveQueue*> SharedReceiveQueueTable::Create(
    memory::ProtectionDomain* pd, const ibv_srq_attr& attr, verbs::EventHandler on_event) {
  if (attr.max_wr > verbs::kMaxWorkRequests || attr.max_sge > verbs::kMaxSge) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "shared receive queue of %u requests with %u elements asked for; at most %u with %u",
        attr.max_wr, attr.max_sge, verbs::kMaxWorkRequests, verbs::kMaxSge));
  }
  if (absl::Status status = queues_.CheckRoom(); !status.ok()) return status;
  auto srq = std::make_unique<verbs::SharedReceiveQueue>(pd, attr, events_, std::move(on_event));
  if (!srq->has_memory()) return NoMemory("shared receive queue");
  ++pd->use_count;
  return queues_.Add(std::move(srq));
}

absl::Status SharedReceiveQueueTable::Destroy(verbs::SharedReceiveQueue* srq) {
  if (absl::Status status = queues_.CheckContains(srq); !status.ok()) return status;
  if (srq->use_count != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "shared receive queue: %u queue pairs still use it; destroy them first", srq->use_count));
  }
  --srq->pd()->use_count;
  events_->Remove(srq);
  srq->ForgetEvents();
  destroyed_->emplace_back(queues_.Take(srq));
  return absl::OkStatus();
}

}  // namespace pollux::engine
