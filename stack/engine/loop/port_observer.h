// Observers of a port's asynchronous events.
#ifndef POLLUX_STACK_ENGINE_LOOP_PORT_OBSERVER_H_
#define POLLUX_STACK_ENGINE_LOOP_PORT_OBSERVER_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pollux::engine {

// Told of a port's asynchronous events: IBV_EVENT_PORT_ERR when its link has gone,
// IBV_EVENT_PORT_ACTIVE when it is back, IBV_EVENT_DEVICE_FATAL when its interface is no more. On
// the worker's core, between polls of the packet path.
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
  // By index: observers add and remove observers, themselves too.
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
