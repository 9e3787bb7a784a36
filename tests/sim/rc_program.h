// A random program of work requests of all kinds on several RC connections between two hosts, by
// IPv4 or IPv6, with a bad network and clocks that jump, and the properties that must hold. Some
// programs have DCQCN, and queue pairs that go to SQD and back.
#ifndef POLLUX_TESTS_SIM_RC_PROGRAM_H_
#define POLLUX_TESTS_SIM_RC_PROGRAM_H_

#include <cstdint>
#include <string>

namespace pollux::sim {

struct RcOutcome {
  // The property that did not hold; empty if all did:
  // - each message is delivered once, in order, unchanged, with the right completion;
  // - each work request completes successfully (the faults of each program are recoverable);
  // - only memory named by work requests changes;
  // - each response has the message sequence number for what its sender has executed;
  // - revoked memory (a deregistered region, an invalidated or unbound fast region or window)
  // cannot
  //   be accessed any more; a request that names it is rejected, and later ones are flushed;
  // - all packet buffers are returned at the end, and all objects can be destroyed.
  std::string violation;
  // A digest of all completions with their times, and of the counters, to compare two runs.
  uint64_t digest = 0;
  uint64_t retransmitted_pkts = 0;
  uint64_t rnr_naks = 0;
  uint64_t cnps = 0;
  uint64_t drained = 0;  // send queues
  uint64_t bad_icrc = 0;
};

// Depends only on its arguments. `behind_rings`: uses workers that share their ports with others
// and receive and send everything by rings (NodeOptions::behind_ring). EAL must be initialised.
RcOutcome RunRcProgram(uint64_t seed, bool behind_rings = false);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RC_PROGRAM_H_
