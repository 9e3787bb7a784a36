#include "stack/verbs/event_list.h"

#include <bit>
#include <utility>

namespace pollux::verbs {

EventSource::EventSource(EventList* list, EventHandler handler)
    : list_(list), handler_(std::move(handler)) {}

EventSource::~EventSource() {
  if (list_ != nullptr) list_->Remove(this);
}

void EventSource::RaiseEvent(ibv_event_type event) {
  pending_ |= 1ull << event;
  if (list_ != nullptr) list_->Push(this);
}

void EventSource::DeliverEvents() {
  while (pending_ != 0) {
    const int event = std::countr_zero(pending_);
    pending_ &= pending_ - 1;
    if (handler_ != nullptr) handler_(static_cast<ibv_event_type>(event));
  }
}

void EventList::Push(EventSource* source) {
  if (source->listed_) return;
  source->listed_ = true;
  source->next_ = nullptr;
  (tail_ != nullptr ? tail_->next_ : head_) = source;
  tail_ = source;
  ++size_;
}

EventSource* EventList::Pop() {
  EventSource* source = head_;
  if (source == nullptr) return nullptr;
  head_ = source->next_;
  if (head_ == nullptr) tail_ = nullptr;
  source->listed_ = false;
  --size_;
  return source;
}

void EventList::Remove(EventSource* source) {
  if (!source->listed_) return;
  EventSource* previous = nullptr;
  for (EventSource* it = head_; it != source; it = it->next_) previous = it;
  (previous != nullptr ? previous->next_ : head_) = source->next_;
  if (tail_ == source) tail_ = previous;
  source->listed_ = false;
  --size_;
}

}  // namespace pollux::verbs
