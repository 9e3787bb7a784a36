// What a worker is made of. For worker.cc and worker_*.cc alone.
#ifndef POLLUX_STACK_ENGINE_LOOP_WORKER_PARTS_H_
#define POLLUX_STACK_ENGINE_LOOP_WORKER_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "stack/engine/loop/worker.h"

namespace pollux::engine {

// Its counters and its egress change with every packet: no line of them is shared with what another
// worker allocates.
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
               [this](ibv_event_type event) { worker->TellPortEvent(*this, event); }),
        link_watch([this](ibv_event_type event) { events.RaiseEvent(event); }) {}

  Worker* worker;
  uint8_t port_num;  // as verbs count them, from 1
  ip::Interface* interface;
  io::Link* link;
  io::Steering* steering;  // null: the port is this worker's alone
  std::string name;
  transport::Counters counters;
  transport::Egress egress;
  transport::PollContext context;
  Timer timer;  // of the interface
  verbs::EventSource events;
  LinkWatch link_watch;
};

struct Worker::Handle {
  std::unique_ptr<verbs::AddressHandle> handle;
  Port* port;
};

// Without an endpoint it is free, or in quarantine while its timer is armed. One cache line: with
// many active queue pairs each packet finds it cold.
struct alignas(64) Worker::Slot {
  Slot() : timer(&Worker::OnSlotTimer, this) {}

  Worker* worker = nullptr;
  Qpn qpn;  // the present one, or the last; 0 before the first
  // Whose neighbour the queue pair's path refers to, as verbs count ports; 0: no path.
  uint8_t path_port_num = 0;
  // Fires at the endpoint's deadline or before it: it is not moved when the deadline becomes later.
  Timer timer;
  std::unique_ptr<transport::Endpoint> endpoint;
};

// To follow each call into an endpoint: its deadline may have moved.
[[gnu::always_inline]] inline void Worker::AfterCall(Slot& slot) {
  const uint64_t deadline = slot.endpoint->deadline_ns();
  const bool never = deadline == transport::Endpoint::kNever;
  if (slot.timer.armed() ? never || slot.timer.deadline_ns() > deadline : !never) {
    MoveTimer(slot, deadline);
  }
  if (slot.endpoint->TakeFailure() && failed_count_ < kMaxFailuresTold) [[unlikely]]
    failed_[failed_count_++] = slot.qpn;
}

// What its calls answer when they cannot do what they are asked.
inline absl::Status Full(const char* what, uint32_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s: all %u of this worker are in use", what, limit));
}
inline absl::Status NotOurs(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: null, or not an object of this worker", what));
}

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_WORKER_PARTS_H_
