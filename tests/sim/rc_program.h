// A random program of work requests of all kinds on several RC connections between two hosts, with
// a bad network and clocks that jump, and the properties that must hold.
#ifndef POLLUX_TESTS_SIM_RC_PROGRAM_H_
#define POLLUX_TESTS_SIM_RC_PROGRAM_H_

#include <cstdint>
#include <string>

namespace pollux::sim {

struct RcOutcome {
  // The property that did not hold; empty if all did:
  // - each message is delivered once, in order, unchanged, with the right completion;
  // - each work request completes, with success (each program's faults can be made good);
  // - of all memory only the bytes change that a work request named;
  // - each answer bears the message sequence number of what its sender has executed;
  // - memory that was taken back (a region deregistered, a fast region or window invalidated or
  //   unbound) is shown no more; who names it is refused, and what is posted then is flushed;
  // - all packet buffers are back at the end, and all objects can be destroyed.
  std::string violation;
  // A digest of all completions with their times, and of the counters, to compare two runs.
  uint64_t digest = 0;
  uint64_t retransmitted_pkts = 0;
  uint64_t rnr_naks = 0;
  uint64_t bad_icrc = 0;
};

// Depends only on its arguments. `behind_rings`: uses workers that share their ports with others
// and receive and send everything by rings (NodeOptions::behind_ring). EAL must be initialised.
RcOutcome RunRcProgram(uint64_t seed, bool behind_rings = false);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RC_PROGRAM_H_
