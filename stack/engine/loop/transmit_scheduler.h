// Which queue pairs send in a turn of the loop, and how much.
#ifndef POLLUX_STACK_ENGINE_LOOP_TRANSMIT_SCHEDULER_H_
#define POLLUX_STACK_ENGINE_LOOP_TRANSMIT_SCHEDULER_H_

#include <cstddef>
#include <cstdint>

#include "stack/transport/message/egress.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

class Worker;

// A part of a worker, which calls it with itself. Active queue pairs take turns in the order in
// which they became active.
class TransmitScheduler {
 public:
  verbs::ActiveList& active() { return active_; }
  bool empty() const { return active_.empty(); }
  bool owes_acks() { return !active_.owed_acks().empty(); }

  // What is owed for what came in this poll leaves with it, however many queue pairs wait for
  // turns. As Transmit(), whether anything was done.
  [[gnu::noinline]] bool Acknowledge(Worker& worker);
  [[gnu::noinline]] bool Transmit(Worker& worker);

 private:
  static constexpr int kPackets = 32;  // that a queue pair may send in its turn
  // And bytes: of packets that are longer, fewer, so that others wait as long. A little more than
  // so many packets have at path MTU 1024.
  static constexpr uint32_t kBytes = 34 * 1024;
  // Turns in a poll, and packets sent in them, so that reception is not starved.
  static constexpr int kTurnsAPoll = 32;
  static constexpr int kPacketsAPoll = 256;
  static constexpr int kPrefetchTurns = 8;  // queue pairs that are fetched together
  // Acknowledgements a port in a poll: half of what its egress holds, the other is for data.
  static constexpr size_t kAcksAPoll = transport::Egress::kCapacity / 2;

  verbs::ActiveList active_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_TRANSMIT_SCHEDULER_H_
