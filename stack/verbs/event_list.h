// Asynchronous events: raised anywhere, delivered by the engine between polls of the packet path.
#ifndef POLLUX_STACK_VERBS_EVENT_LIST_H_
#define POLLUX_STACK_VERBS_EVENT_LIST_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "absl/functional/any_invocable.h"

namespace pollux::verbs {

class EventList;

// What an object calls on the owning core when something has happened to it.
using EventHandler = absl::AnyInvocable<void(ibv_event_type)>;

// A queue pair, completion queue or shared receive queue. Raising takes neither heap nor lock. An
// event that is raised again before it was delivered is delivered once.
class EventSource {
 public:
  // `list` may be null: whoever made the source then asks it.
  EventSource(EventList* list, EventHandler handler);
  virtual ~EventSource();
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;

  void RaiseEvent(ibv_event_type event);
  bool has_events() const { return pending_ != 0; }
  void ForgetEvents() { pending_ = 0; }
  // Engine only. The handler may do anything, destroy this too as long as the memory stays.
  virtual void DeliverEvents();

 private:
  friend class EventList;
  EventList* list_;
  EventHandler handler_;
  uint64_t pending_ = 0;  // a bit for each ibv_event_type
  EventSource* next_ = nullptr;
  bool listed_ = false;
};

// Sources with events, first come first served, each once. One a worker.
class EventList {
 public:
  uint32_t size() const { return size_; }
  // Appends unless it is in the list already.
  void Push(EventSource* source);
  // Null when empty.
  EventSource* Pop();
  void Remove(EventSource* source);

 private:
  EventSource* head_ = nullptr;
  EventSource* tail_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_EVENT_LIST_H_
