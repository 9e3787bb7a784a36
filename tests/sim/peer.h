// One end of a connection in a simulation, with the objects that it needs.
#ifndef POLLUX_TESTS_SIM_PEER_H_
#define POLLUX_TESTS_SIM_PEER_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "stack/engine/loop/worker.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {

// The objects belong to the node's worker. Errors are failures of the test.
struct Peer {
  Node* node = nullptr;
  memory::ProtectionDomain* pd = nullptr;
  verbs::CompletionQueue* cq = nullptr;  // for sends and receives
  verbs::QueuePair* qp = nullptr;

  // Path MTU 1024, timeout code 14 (67 ms), 7 retries, 4 READs and atomics in each direction.
  static ibv_qp_attr DefaultAttr();

  void Create(Node& at, uint32_t max_send_wr = 16, ibv_qp_type type = IBV_QPT_RC);
  // Moves the queue pair to RTS with `attr`, connected to `peer`, which must have been created.
  void Connect(const Peer& peer, ibv_qp_attr attr = DefaultAttr());
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_PEER_H_
