#include "stack/engine/loop/transmit_scheduler.h"

#include <rte_prefetch.h>

#include "stack/engine/loop/worker_parts.h"

namespace pollux::engine {

using transport::Endpoint;

bool TransmitScheduler::Acknowledge(Worker& worker) {
  bool worked = false;
  for (size_t left = kAcksAPoll * worker.ports_.size(); left > 0; --left) {
    verbs::QueuePair* qp = active_.owed_acks().Pop();
    if (qp == nullptr) break;
    Worker::Port& port = worker.PortOf(*qp);
    if (port.egress.room() == 0) port.egress.Flush(worker.now_ns_);
    if (!Endpoint::Of(qp)->Acknowledge(worker.Context(port))) {
      qp->ActivateAck();
      if (worker.ports_.size() == 1) break;
      continue;
    }
    worker.AfterCall(worker.SlotOf(*qp));
    worked = true;
  }
  return worked;
}

bool TransmitScheduler::Transmit(Worker& worker) {
  bool worked = false;
  int packets = 0;
  for (int turn = 0; turn < kTurnsAPoll && packets < kPacketsAPoll && !active_.empty(); ++turn) {
    if (turn % kPrefetchTurns == 0) {
      active_.VisitFirst(kPrefetchTurns, [&worker](verbs::QueuePair* qp) {
        Endpoint::Of(qp)->Prefetch(true);
        rte_prefetch0(&worker.SlotOf(*qp));
      });
    }
    Worker::Port& port = worker.PortOf(*active_.front());
    if (port.egress.room() == 0) [[unlikely]] {
      port.egress.Flush(worker.now_ns_);
      if (port.egress.room() == 0) {
        if (worker.ports_.size() == 1) break;
        active_.Push(active_.Pop());
        continue;
      }
    }
    const uint64_t sent = port.counters.sent_pkts;
    const uint16_t room = port.egress.room();
    verbs::QueuePair* qp = active_.Pop();
    port.egress.BeginTurn(kBytes);
    const bool more = Endpoint::Of(qp)->Transmit(worker.Context(port), kPackets);
    worker.AfterCall(worker.SlotOf(*qp));
    if (!more) {
      worked = true;
      if (active_.empty()) [[likely]]
        break;
    } else {
      active_.Push(qp);
    }
    const int pushed = static_cast<int>(port.counters.sent_pkts - sent) + room - port.egress.room();
    // Who could not send although it has more counts as if it had: there may be no buffers.
    packets += pushed == 0 && more ? kPackets : pushed;
    // The peer works on them while the next are made.
    if (port.egress.TurnIsOver()) port.egress.Flush(worker.now_ns_);
    // One that could not send although it has more waits for buffers: that is idling.
    worked |= pushed > 0;
  }
  return worked;
}

}  // namespace pollux::engine
