// Decides which queue pairs send in a turn of the loop, and how much.
#ifndef POLLUX_STACK_ENGINE_LOOP_TRANSMIT_SCHEDULER_H_
#define POLLUX_STACK_ENGINE_LOOP_TRANSMIT_SCHEDULER_H_

#include <cstddef>
#include <cstdint>

#include "stack/transport/message/egress.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

class Worker;

// A part of a worker, which passes itself to each call. Active queue pairs get their turns to send
// in the order in which they became active.
class TransmitScheduler {
 public:
  verbs::ActiveList& active() { return active_; }
  bool empty() const { return active_.empty(); }
  bool owes_acks() { return !active_.owed_acks().empty(); }

  // Acknowledge() sends the acknowledgements of packets received in this poll, even if many queue
  // pairs wait for their turn to send. Both functions return whether they did any work.
  [[gnu::noinline]] bool Acknowledge(Worker& worker);
  [[gnu::noinline]] bool Transmit(Worker& worker);

 private:
  static constexpr int kPackets = 32;  // the most packets that a queue pair sends in its turn
  // The limit in bytes. If packets are longer, fewer are sent, so that the other queue pairs wait
  // equally long. A little more than kPackets packets at path MTU 1024.
  static constexpr uint32_t kBytes = 34 * 1024;
  // The most turns to send per poll, and the most packets sent in them, so that reception is not
  // starved.
  static constexpr int kTurnsAPoll = 32;
  static constexpr int kPacketsAPoll = 256;
  static constexpr int kPrefetchTurns = 8;  // queue pairs that are prefetched together
  // The most acknowledgements per port and poll: half of its egress; the other half is for data.
  static constexpr size_t kAcksAPoll = transport::Egress::kCapacity / 2;

  verbs::ActiveList active_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_TRANSMIT_SCHEDULER_H_
