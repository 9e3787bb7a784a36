// Counters of RPC-over-RDMA: its work, and what it discarded, by reason. One per client or server.
#ifndef POLLUX_RPCRDMA_CONNECTION_COUNTERS_H_
#define POLLUX_RPCRDMA_CONNECTION_COUNTERS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace pollux::rpcrdma {

// The times of calls, from the turn of the worker's loop that began with a call to the one that
// built its reply: calls that are answered in the same turn take 0 ns. Times between two limits,
// which differ by a factor of two, are counted together.
class CallTimes {
 public:
  // Of a bucket: 1,024 ns, 2,048 ns, and so on to 8.6 s.
  static constexpr uint32_t kLimits = 24;
  static constexpr uint64_t Limit(uint32_t index) { return uint64_t{1024} << index; }

  void Count(uint64_t ns) {
    if (ns == 0) [[likely]] {
      ++calls_[0];
      return;
    }
    sum_ns_ += ns;
    ++calls_[std::bit_width((ns - 1) >> 10)];
  }
  // The number of calls that took at most Limit(index), and longer than the limit before it; of all
  // longer calls, if `index` is kLimits.
  uint64_t calls(uint32_t index) const;
  uint64_t sum_ns() const { return sum_ns_; }

 private:
  std::array<uint64_t, 55> calls_{};
  uint64_t sum_ns_ = 0;
};

struct Counters {
  // Both sides
  uint64_t connections_established = 0;
  uint64_t connections_lost = 0;  // after they were established
  // connections that a client has replaced, included in connections_established
  uint64_t reconnects = 0;
  // messages shorter than any header, and RDMA WRITEs with immediate data; all are discarded. RFC
  // 8166 section 4.5
  uint64_t short_messages = 0;
  uint64_t obsolete_messages = 0;  // RDMA_DONE, RDMA_MSGP
  // Requester
  uint64_t calls_sent = 0;
  uint64_t calls_sent_again = 0;  // on another connection with the same XID, included in calls_sent
  uint64_t replies_received = 0;
  uint64_t calls_failed = 0;          // by the end of the connection, by time-out, or cancelled
  uint64_t bad_reply_headers = 0;     // discarded, or the call fails. RFC 8166 section 4.5
  uint64_t unknown_xids = 0;          // discarded
  uint64_t late_replies = 0;          // discarded: the call had timed out
  uint64_t bad_reply_chunks = 0;      // other or longer chunks than offered: the call fails
  uint64_t bad_rpc_replies = 0;       // message without an RPC reply of its XID: the call fails
  uint64_t errors_received = 0;       // RDMA_ERROR
  uint64_t remote_invalidations = 0;  // replies that invalidated memory of their calls
  uint64_t bad_invalidations = 0;     // of memory not offered, or by a call: the connection ends
  uint64_t connections_silent = 0;    // ended because a call had no reply
  // Responder
  uint64_t calls_received = 0;
  uint64_t replies_sent = 0;
  uint64_t invalidations_sent = 0;      // RFC 8797 section 4.1, included in replies_sent
  uint64_t unwanted_errors = 0;         // RDMA_ERROR discarded. RFC 8166 section 4.2.4
  uint64_t version_errors_sent = 0;     // RFC 8166 section 4.5.1
  uint64_t chunk_errors_sent = 0;       // RFC 8166 section 4.5.2
  uint64_t bad_calls = 0;               // invalid headers or chunks, included in chunk_errors_sent
  uint64_t eligibility_violations = 0;  // RFC 8166 section 6.1, included in chunk_errors_sent
  uint64_t calls_refused = 0;           // no such program, version, procedure; RPC version
  // for the memory that the Requester offered, included in chunk_errors_sent
  uint64_t replies_too_large = 0;
  uint64_t replies_dropped = 0;      // the connection had ended
  uint64_t duplicates_answered = 0;  // with the saved reply of the first call
  uint64_t duplicates_joined = 0;    // that waited for the reply of the running call
  uint64_t duplicates_dropped = 0;   // replaced by a later duplicate that waits for the reply
  uint64_t duplicates_refused = 0;   // the reply is lost, included in chunk_errors_sent
  uint64_t calls_not_cached = 0;     // the reply cache was full of running calls
  uint64_t connections_stalled = 0;  // ended because the client takes no replies
  // calls that offered memory which could not be accessed; each ended its connection
  uint64_t unreachable_memory = 0;
  uint64_t connections_refused = 0;  // at a limit, or memory was short
  // Bytes of chunks moved by RDMA
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // Of these, bytes that were copied in memory, besides the one copy that the stack makes of each
  // packet: for long replies, and as reported by CountCopied()
  uint64_t bytes_copied = 0;
  CallTimes call_times;  // of the Responder: one for each of replies_sent

  // Calls `visit` for each counter with the name of its member; for `call_times` with
  // "call_time_ns/LIMIT" for each limit, "call_time_ns/inf" and "call_time_ns/sum".
  void Visit(absl::FunctionRef<void(std::string_view name, uint64_t value)> visit) const;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_COUNTERS_H_
