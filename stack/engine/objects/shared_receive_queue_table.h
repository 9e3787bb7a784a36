// The shared receive queues of a worker.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_SHARED_RECEIVE_QUEUE_TABLE_H_
#define POLLUX_STACK_ENGINE_OBJECTS_SHARED_RECEIVE_QUEUE_TABLE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/engine/objects/object_table.h"
#include "stack/memory/protection_domain.h"
#include "stack/verbs/event_list.h"
#include "stack/verbs/shared_receive_queue.h"

namespace pollux::engine {

// Implements calls of Worker, which describes them.
class SharedReceiveQueueTable {
 public:
  // `events` and `destroyed` must outlive this object.
  SharedReceiveQueueTable(uint32_t max, verbs::EventList* events, DestroyedObjects* destroyed)
      : events_(events), destroyed_(destroyed), queues_("shared receive queue", max) {}

  // `pd` must be the worker's.
  absl::StatusOr<verbs::SharedReceiveQueue*> Create(memory::ProtectionDomain* pd,
                                                    const ibv_srq_attr& attr,
                                                    verbs::EventHandler on_event);
  absl::Status Destroy(verbs::SharedReceiveQueue* srq);
  bool contains(verbs::SharedReceiveQueue* srq) const { return queues_.contains(srq); }
  size_t size() const { return queues_.size(); }

 private:
  verbs::EventList* events_;
  DestroyedObjects* destroyed_;
  ObjectTable<verbs::SharedReceiveQueue> queues_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_SHARED_RECEIVE_QUEUE_TABLE_H_
