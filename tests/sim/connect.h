// Brings simulated hosts and their queue pairs together, as a connection manager would.
#ifndef POLLUX_TESTS_SIM_CONNECT_H_
#define POLLUX_TESTS_SIM_CONNECT_H_

#include <infiniband/verbs.h>

#include "absl/status/status.h"
#include "stack/base/random.h"
#include "stack/base/types.h"
#include "stack/verbs/queue_pair.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {

// Attributes of a reliable connection that stands every network of DrawConditions().
ibv_qp_attr DrawAttributes(Random& random);
// Anywhere, often shortly before it wraps or before half of the circle.
uint32_t DrawPsn(Random& random);

// Each finds the link-layer address of the other, as CM has it before it connects: ARP tries again
// once a second, which is longer than a queue pair may wait. False when that took longer than any
// network of ours explains.
bool FindEachOther(Simulation& simulation, Node& a, Node& b);

// Towards the host `to`.
ibv_ah_attr AddressOf(const Node& to);

// From RESET to RTS, by the attributes that the type needs of `attr`; its path is in attr.ah_attr.
// The first refusal.
absl::Status BringToRts(engine::Worker& worker, verbs::QueuePair* qp, Qpn peer_qpn,
                        ibv_qp_attr attr);
// From RESET to RTS, by the attributes that the type needs of `attr`; port, path and destination
// are filled in here (UD has none). The first refusal.
absl::Status BringToRts(Node& node, verbs::QueuePair* qp, const Node& peer, Qpn peer_qpn,
                        ibv_qp_attr attr);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_CONNECT_H_
