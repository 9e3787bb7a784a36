// A random program of RPCs from a client to a server over a bad network, and the properties that
// must hold.
#ifndef POLLUX_TESTS_SIM_RPC_PROGRAM_H_
#define POLLUX_TESTS_SIM_RPC_PROGRAM_H_

#include <cstdint>
#include <string>

namespace pollux::sim {

struct RpcOutcome {
  // The property that did not hold; empty if all did:
  // - each call is called back exactly once, never from inside the call;
  // - with the right results, or Unavailable (the connection ended) or DeadlineExceeded (where it
  //   had a time limit); always with the right results where no link went down and no call had one,
  //   although the server hung up, if the client is one that connects again;
  // - a call that is not idempotent runs at most once, however often it is sent;
  // - from the callback on nothing writes into the call's memory, and never beside it;
  // - each call that the server makes to the client is called back once, with what it sent or with
  //   the connection's end;
  // - no key stays advertised; what the server lends for a result is given back once;
  // - the client connects again after whatever happened, all connections end, all buffers are back.
  std::string violation;
  // A digest of the results and end times of all calls, to compare two runs.
  uint64_t digest = 0;
  uint64_t succeeded = 0;
  uint64_t unavailable = 0;
  uint64_t timed_out = 0;
  uint64_t connections = 0;  // made by the program
  uint64_t reconnects = 0;   // made by the client itself
  uint64_t duplicates = 0;   // repeated calls that were not run again
  uint64_t callbacks = 0;    // calls of the server that the client answered
  uint64_t bytes_read = 0;   // by the server, in chunks
  uint64_t bytes_written = 0;
  uint64_t pieces = 0;  // pieces of results sent before their replies
  uint64_t retransmitted_pkts = 0;
};

// Depends only on `seed`. EAL must be initialised.
RpcOutcome RunRpcProgram(uint64_t seed);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RPC_PROGRAM_H_
