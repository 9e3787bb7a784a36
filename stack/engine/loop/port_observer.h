// Observers of a port's asynchronous events.
#ifndef POLLUX_STACK_ENGINE_LOOP_PORT_OBSERVER_H_
#define POLLUX_STACK_ENGINE_LOOP_PORT_OBSERVER_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pollux::engine {

// Notified of a port's asynchronous events: IBV_EVENT_PORT_ERR when its link goes down,
// IBV_EVENT_PORT_ACTIVE when it is up again, IBV_EVENT_DEVICE_FATAL when its interface no longer
// exists. Called on the worker's core, between polls of the packet path.
class PortObserver {
 public:
  virtual ~PortObserver() = default;
  virtual void OnPortEvent(uint8_t port_num, ibv_event_type event) = 0;
};

class PortObserverList {
 public:
  void Add(PortObserver* observer) { observers_.push_back(observer); }
  void Remove(PortObserver* observer) {
    std::replace(observers_.begin(), observers_.end(), observer,
                 static_cast<PortObserver*>(nullptr));
  }
  // By index, because observers add and remove observers, including themselves.
  void Tell(uint8_t port_num, ibv_event_type event) {
    for (size_t i = 0; i < observers_.size(); ++i) {
      if (observers_[i] != nullptr) observers_[i]->OnPortEvent(port_num, event);
    }
    std::erase(observers_, nullptr);
  }

 private:
  std::vector<PortObserver*> observers_;  // null: removed
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_PORT_OBSERVER_H_
