// The parts of a worker. For worker.cc and worker_*.cc only.
#ifndef POLLUX_STACK_ENGINE_LOOP_WORKER_PARTS_H_
#define POLLUX_STACK_ENGINE_LOOP_WORKER_PARTS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "stack/engine/loop/worker.h"

namespace pollux::engine {

// The counters and the egress change with every packet: they share no cache line with memory that
// another worker allocates.
struct alignas(64) Worker::Port {
  Port(Worker* owner, uint8_t number, ip::Interface* its_interface, io::Link* its_link,
       std::string its_name, io::Steering* its_steering)
      : worker(owner),
        port_num(number),
        interface(its_interface),
        link(its_link),
        steering(its_steering),
        name(std::move(its_name)),
        egress(its_link, owner->packet_pool_, &counters),
        context{.now_ns = owner->now_ns_,
                .egress = egress,
                .counters = counters,
                .random = owner->random_,
                .resolver = its_interface},
        timer(&Worker::OnInterfaceTimer, this),
        events(&owner->events_,
               [this](ibv_event_type event) { worker->port_observers_.Tell(port_num, event); }),
        link_watch([this](ibv_event_type event) {
          if (event == IBV_EVENT_PORT_ACTIVE) interface->OnLinkUp(worker->Context(*this));
          events.RaiseEvent(event);
        }) {}

  Worker* worker;
  uint8_t port_num;  // counted from 1, as in verbs
  ip::Interface* interface;
  io::Link* link;
  io::Steering* steering;  // null: no other worker uses the port
  std::string name;
  transport::Counters counters;
  transport::Egress egress;
  transport::PollContext context;
  Timer timer;  // of the interface
  verbs::EventSource events;
  LinkWatch link_watch;
};

inline transport::PollContext& Worker::Context(Port& port) {
  port.context.now_ns = now_ns_;
  return port.context;
}

// A queue pair has no port before it is in INIT; nothing is sent for it until then.
inline Worker::Port& Worker::PortOf(const verbs::QueuePair& qp) {
  const size_t port_num = qp.attr.port_num;
  return *ports_[port_num >= 1 && port_num <= ports_.size() ? port_num - 1 : 0];
}

// Must follow each call into an endpoint, because its deadline may have changed.
[[gnu::always_inline]] inline void Worker::AfterCall(Slot& slot) {
  const uint64_t deadline = slot.endpoint->deadline_ns();
  const bool never = deadline == transport::Endpoint::kNever;
  if (slot.timer.armed() ? never || slot.timer.deadline_ns() > deadline : !never) {
    MoveTimer(slot, deadline);
  }
  if (slot.endpoint->TakeFailure()) [[unlikely]]
    failures_.Add(slot.qpn);
}

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_WORKER_PARTS_H_
