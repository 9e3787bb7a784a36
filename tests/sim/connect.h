// Connects simulated hosts and their queue pairs, as a connection manager would.
#ifndef POLLUX_TESTS_SIM_CONNECT_H_
#define POLLUX_TESTS_SIM_CONNECT_H_

#include <infiniband/verbs.h>

#include "absl/status/status.h"
#include "stack/base/random.h"
#include "stack/base/types.h"
#include "stack/verbs/queue_pair.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {

// Attributes of a reliable connection that survives every network of DrawConditions().
ibv_qp_attr DrawAttributes(Random& random);
// Makes the host's port a bottleneck that marks packets, and lets the host reduce its rates by
// DCQCN. Call it before queue pairs are created.
void LimitRates(Random& random, Node& node);
// A random PSN, often shortly before the wrap-around or before half the range.
uint32_t DrawPsn(Random& random);

// Resolves the link-layer addresses of both hosts, as CM does before it connects: ARP retries only
// once per second, which is longer than a queue pair may wait. Returns false if this took longer
// than any simulated network explains.
bool FindEachOther(Simulation& simulation, Node& a, Node& b);

// The address attributes for the host `to`.
ibv_ah_attr AddressOf(const Node& to);

// Moves a queue pair from RESET to RTS with the attributes in `attr` that its type needs; the path
// is in attr.ah_attr. Returns the first error.
absl::Status BringToRts(engine::Worker& worker, verbs::QueuePair* qp, Qpn peer_qpn,
                        ibv_qp_attr attr);
// The same, but sets port, path and destination itself (UD has no path and destination).
absl::Status BringToRts(Node& node, verbs::QueuePair* qp, const Node& peer, Qpn peer_qpn,
                        ibv_qp_attr attr);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_CONNECT_H_
