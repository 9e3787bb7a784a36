// The completion queues of a worker.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_COMPLETION_QUEUE_TABLE_H_
#define POLLUX_STACK_ENGINE_OBJECTS_COMPLETION_QUEUE_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/engine/objects/object_table.h"
#include "stack/verbs/completion_queue.h"
#include "stack/verbs/event_list.h"

namespace pollux::engine {

// Implements calls of Worker, which describes them.
class CompletionQueueTable {
 public:
  // `events` and `destroyed` must outlive this object.
  CompletionQueueTable(uint32_t max, verbs::EventList* events, DestroyedObjects* destroyed)
      : events_(events), destroyed_(destroyed), queues_("completion queue", max) {}

  absl::StatusOr<verbs::CompletionQueue*> Create(uint32_t entries, verbs::EventHandler on_event);
  absl::Status Destroy(verbs::CompletionQueue* cq);
  bool contains(verbs::CompletionQueue* cq) const { return queues_.contains(cq); }
  size_t size() const { return queues_.size(); }

 private:
  verbs::EventList* events_;
  DestroyedObjects* destroyed_;
  ObjectTable<verbs::CompletionQueue> queues_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_COMPLETION_QUEUE_TABLE_H_
