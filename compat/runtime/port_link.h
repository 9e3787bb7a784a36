// What programs learn of the port's link: its state, and what happens to it.
#ifndef POLLUX_COMPAT_RUNTIME_PORT_LINK_H_
#define POLLUX_COMPAT_RUNTIME_PORT_LINK_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <set>

#include "compat/runtime/event_queue.h"
#include "stack/engine/loop/worker.h"

namespace pollux::compat {

// One of a port. During a ScopedWorkerOwnership only.
class PortLink : public engine::PortObserver {
 public:
  // `to_one_process`: the port is a memif, whose link is up while the process at its other end is
  // there.
  explicit PortLink(bool to_one_process) : awaits_peer_(to_one_process) {}

  using AsyncEvents = EventQueue<ibv_async_event>;
  // Those of a context, which are told from now on, by ibv_get_async_event(3): IBV_EVENT_PORT_ERR,
  // IBV_EVENT_PORT_ACTIVE, IBV_EVENT_DEVICE_FATAL. Of each kind one waits in a context, the latest:
  // a link may go and come for as long as a program does not ask.
  void Add(AsyncEvents* events) { told_.insert(events); }
  void Remove(AsyncEvents* events) { told_.erase(events); }

  // The state as programs see it, in what ibv_query_port(3) gives. Servers look at it before they
  // wait for a client, and give up where the port is down (perftest): until the other process of a
  // memif has come for the first time, its link counts as up, as that to a switch would.
  void Show(ibv_port_attr* attr) const;

  void OnPortEvent(uint8_t port_num, ibv_event_type event) override;

 private:
  std::set<AsyncEvents*> told_;
  bool awaits_peer_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_PORT_LINK_H_
