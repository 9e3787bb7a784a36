// The state of the port's link, and its changes, as programs see them.
#ifndef POLLUX_COMPAT_RUNTIME_PORT_LINK_H_
#define POLLUX_COMPAT_RUNTIME_PORT_LINK_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <set>

#include "compat/runtime/event_queue.h"
#include "stack/engine/loop/worker.h"

namespace pollux::compat {

// One per port. Used only during a ScopedWorkerOwnership.
class PortLink : public engine::PortObserver {
 public:
  // `to_one_process`: the port is a memif, whose link is up while the process at its other end
  // exists.
  explicit PortLink(bool to_one_process) : awaits_peer_(to_one_process) {}

  using AsyncEvents = EventQueue<ibv_async_event>;
  // Adds the event queue of a context, which now receives IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE
  // and IBV_EVENT_DEVICE_FATAL for ibv_get_async_event(3). Only the latest event of each kind is
  // queued, because a link may change any number of times before the program asks.
  void Add(AsyncEvents* events) { told_.insert(events); }
  void Remove(AsyncEvents* events) { told_.erase(events); }

  // Sets the port state for ibv_query_port(3). Servers check it before they wait for a client and
  // give up if the port is down (perftest). Until the other process of a memif has connected for
  // the first time, its link therefore counts as up, as the link to a switch would.
  void Show(ibv_port_attr* attr) const;

  void OnPortEvent(uint8_t port_num, ibv_event_type event) override;

 private:
  std::set<AsyncEvents*> told_;
  bool awaits_peer_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_PORT_LINK_H_
