// Asynchronous events: raised at any time, delivered by the engine between polls of the packet
// path.
#ifndef POLLUX_STACK_VERBS_EVENT_LIST_H_
#define POLLUX_STACK_VERBS_EVENT_LIST_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "absl/functional/any_invocable.h"

namespace pollux::verbs {

class EventList;

// Called on the owning core when an event of an object is delivered.
using EventHandler = absl::AnyInvocable<void(ibv_event_type)>;

// A queue pair, completion queue or shared receive queue. Raising an event takes no heap memory and
// no lock. An event that is raised again before it was delivered is delivered once.
class EventSource {
 public:
  // `list` may be null: the creator of the source must then check has_events().
  EventSource(EventList* list, EventHandler handler);
  virtual ~EventSource();
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;

  void RaiseEvent(ibv_event_type event);
  bool has_events() const { return pending_ != 0; }
  void ForgetEvents() { pending_ = 0; }
  // Called by the engine only. The handler may do anything, including destroying this object as
  // long as its memory stays allocated.
  virtual void DeliverEvents();

 private:
  friend class EventList;
  EventList* list_;
  EventHandler handler_;
  uint64_t pending_ = 0;  // a bit for each ibv_event_type
  EventSource* next_ = nullptr;
  bool listed_ = false;
};

// The sources with events, in the order of their first event, each at most once. One per worker.
class EventList {
 public:
  uint32_t size() const { return size_; }
  // Appends the source unless it is in the list.
  void Push(EventSource* source);
  // Returns null if the list is empty.
  EventSource* Pop();
  void Remove(EventSource* source);

 private:
  EventSource* head_ = nullptr;
  EventSource* tail_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_EVENT_LIST_H_
