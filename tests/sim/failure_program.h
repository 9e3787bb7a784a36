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
  // - each work request completes once, in order: successes, then one error that the mishaps
  //   explain, then what was flushed; without a fault a reliable connection sees only successes;
  // - a completion for which there was no room ends all queue pairs of its completion queue, and
  //   what is polled of that has no gap;
  // - nothing completes of a queue pair that was destroyed;
  // - what is received was sent: of a reliable connection all that was acknowledged, in order and
  //   once; UC and UD at most that, unless the network repeats;
  // - of all memory only bytes change that a posted work request named, to what it said;
  // - queue pairs serve again after RESET, all objects can be destroyed, all buffers come home.
  std::string violation;
  uint64_t digest = 0;
  std::array<uint64_t, kSimulatedFaults> fired{};  // by SimulatedFault
  uint64_t failed = 0;                             // ends that saw an error
  uint64_t lost_messages = 0;                      // on UC and UD
};

// Depends only on `seed`. EAL must be initialised.
FailureOutcome RunFailureProgram(uint64_t seed);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_FAILURE_PROGRAM_H_
