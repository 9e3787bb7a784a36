#include "stack/engine/objects/completion_queue_table.h"

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/verbs/limits.h"

namespace pollux::engine {

absl::StatusOr<verbs::CompletionQueue*> CompletionQueueTable::Create(uint32_t entries,
                                                                     verbs::EventHandler on_event) {
  if (entries == 0 || entries > verbs::kMaxCqEntries) {
    return absl::InvalidArgumentError(
        absl::StrFormat("completion queue of %u entries asked for; 1 to %u are allowed", entries,
                        verbs::kMaxCqEntries));
  }
  if (absl::Status status = queues_.CheckRoom(); !status.ok()) return status;
  auto cq = std::make_unique<verbs::CompletionQueue>(entries, events_, std::move(on_event));
  if (!cq->has_memory()) return NoMemory("completion queue");
  return queues_.Add(std::move(cq));
}

absl::Status CompletionQueueTable::Destroy(verbs::CompletionQueue* cq) {
  if (absl::Status status = queues_.CheckContains(cq); !status.ok()) return status;
  if (cq->use_count() != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("completion queue: queue pairs still use it %u times; destroy them first",
                        cq->use_count()));
  }
  if (cq->announced()) {
    return absl::FailedPreconditionError(
        "completion queue: its channel still has an event of it; get that event first");
  }
  events_->Remove(cq);
  cq->ForgetEvents();
  // The program may destroy the channel before the end of the turn, when the queue is freed.
  cq->LeaveChannel();
  destroyed_->emplace_back(queues_.Take(cq));
  return absl::OkStatus();
}

}  // namespace pollux::engine
