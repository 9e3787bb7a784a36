// A random program of RPCs from a client to a server over a bad network, and the properties that
// must hold.
#ifndef POLLUX_TESTS_SIM_RPC_PROGRAM_H_
#define POLLUX_TESTS_SIM_RPC_PROGRAM_H_

#include <cstdint>
#include <string>

namespace pollux::sim {

struct RpcOutcome {
  // The property that did not hold; empty if all did:
  // - the callback of each call is called exactly once, never during the call;
  // - its results are right, or its status is Unavailable (the connection ended) or
  //   DeadlineExceeded (if it had a time limit); if no link went down and no call had a time limit,
  //   the results are always right for a client that reconnects, even if the server disconnects;
  // - a call that is not idempotent runs at most once, however often it is sent;
  // - nothing writes to the memory of a call after its callback, or ever beyond that memory;
  // - each call from the server to the client ends once, with the right results or with the end of
  //   the connection;
  // - no key remains advertised; each result item of the server is released once;
  // - in the end the client can reconnect, all connections end, and all buffers are returned.
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
