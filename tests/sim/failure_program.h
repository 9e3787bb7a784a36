// Random programs in which applications fail in the middle of messages, and the properties that
// must hold nevertheless.
#ifndef POLLUX_TESTS_SIM_FAILURE_PROGRAM_H_
#define POLLUX_TESTS_SIM_FAILURE_PROGRAM_H_

#include <array>
#include <cstdint>
#include <string>

#include "tests/sim/simulated_fault.h"

namespace pollux::sim {

struct FailureOutcome {
  // The property that did not hold; empty if all did:
  // - each work request completes once, in order: first successes, then one error that the faults
  //   explain, then flushed ones; without a fault, all on a reliable connection succeed, unless it
  //   has few retries: then the error may be IBV_WC_RETRY_EXC_ERR;
  // - a completion that does not fit into its completion queue ends all queue pairs of that queue,
  //   and there is no gap in the completions that can be polled;
  // - nothing completes on a destroyed queue pair;
  // - only sent messages are received: on a reliable connection all that were acknowledged, in
  // order
  //   and once; on UC and UD each at most once, unless the network duplicates;
  // - only memory named by posted work requests changes, and only to the right contents;
  // - queue pairs can be used again after RESET, all objects can be destroyed, and all buffers are
  //   returned to their pools.
  std::string violation;
  uint64_t digest = 0;
  std::array<uint64_t, kSimulatedFaults> fired{};  // by SimulatedFault
  uint64_t failed = 0;                             // ends that saw an error
  uint64_t gave_up = 0;                            // ends with few retries, and no fault
  uint64_t lost_messages = 0;                      // on UC and UD
};

// Depends only on `seed`. EAL must be initialised.
FailureOutcome RunFailureProgram(uint64_t seed);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_FAILURE_PROGRAM_H_
