// What RPC-over-RDMA did, and what it discarded and why. One per client or server.
#ifndef POLLUX_RPCRDMA_CONNECTION_COUNTERS_H_
#define POLLUX_RPCRDMA_CONNECTION_COUNTERS_H_

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace pollux::rpcrdma {

struct Counters {
  // Both sides
  uint64_t connections_established = 0;
  uint64_t connections_lost = 0;   // after they were established
  uint64_t reconnects = 0;         // of a client, by itself: among connections_established
  uint64_t short_messages = 0;     // discarded. RFC 8166 section 4.5
  uint64_t obsolete_messages = 0;  // RDMA_DONE, RDMA_MSGP
  // Requester
  uint64_t calls_sent = 0;
  uint64_t calls_sent_again = 0;  // on another connection, under the same XID: among calls_sent
  uint64_t replies_received = 0;
  uint64_t calls_failed = 0;          // with the connection, by time-out, or cancelled
  uint64_t bad_reply_headers = 0;     // discarded, or the call fails. RFC 8166 section 4.5
  uint64_t unknown_xids = 0;          // discarded
  uint64_t late_replies = 0;          // discarded: the call had timed out
  uint64_t bad_reply_chunks = 0;      // chunks other than offered, or longer: the call fails
  uint64_t bad_rpc_replies = 0;       // no RPC reply of that XID inside: the call fails
  uint64_t errors_received = 0;       // RDMA_ERROR
  uint64_t remote_invalidations = 0;  // replies that invalidated memory of their call
  uint64_t bad_invalidations = 0;     // of other memory, or by a call: the connection is given up
  uint64_t connections_silent = 0;    // given up: a call had no answer
  // Responder
  uint64_t calls_received = 0;
  uint64_t replies_sent = 0;
  uint64_t invalidations_sent = 0;      // RFC 8797 section 4.1, among replies_sent
  uint64_t unwanted_errors = 0;         // RDMA_ERROR discarded. RFC 8166 section 4.2.4
  uint64_t version_errors_sent = 0;     // RFC 8166 section 4.5.1
  uint64_t chunk_errors_sent = 0;       // RFC 8166 section 4.5.2
  uint64_t bad_calls = 0;               // headers or chunks without sense, among chunk_errors_sent
  uint64_t eligibility_violations = 0;  // RFC 8166 section 6.1, among chunk_errors_sent
  uint64_t calls_refused = 0;           // no such program, version, procedure; RPC version
  uint64_t replies_too_large = 0;       // for what the Requester offered, among chunk_errors_sent
  uint64_t replies_dropped = 0;         // the connection was gone
  uint64_t duplicates_answered = 0;     // with the saved reply of a call that was the same
  uint64_t duplicates_joined = 0;       // wait for the reply of the call that runs: later answered
  uint64_t duplicates_dropped = 0;      // a later one waits for that reply
  uint64_t duplicates_refused = 0;      // no reply can be had any more, among chunk_errors_sent
  uint64_t calls_not_cached = 0;        // the reply cache was full of calls that run
  uint64_t connections_stalled = 0;     // given up: the client takes no replies
  uint64_t unreachable_memory = 0;      // offered by calls that cost their connection
  uint64_t connections_refused = 0;     // no room for another
  // Bytes of chunks moved by RDMA
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // What was copied of them in memory, besides the one copy that the stack makes of each packet:
  // long replies as they are put together, and what handlers and callers say that they copied
  uint64_t bytes_copied = 0;

  // Calls `visit` for each with its member's name.
  void Visit(absl::FunctionRef<void(std::string_view name, uint64_t value)> visit) const;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_COUNTERS_H_
