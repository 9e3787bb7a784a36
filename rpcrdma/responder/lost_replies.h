// Calls whose reply could not be sent because access to the memory that the client offered failed,
// which ended the connection.
#ifndef POLLUX_RPCRDMA_RESPONDER_LOST_REPLIES_H_
#define POLLUX_RPCRDMA_RESPONDER_LOST_REPLIES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "rpcrdma/responder/reply_cache.h"

namespace pollux::rpcrdma {

// Shared by all connections of a server; used on its core. A client that repeats such a call would
// lose one connection after another, so the server answers the repeated call with ERR_CHUNK, once.
// RFC 8166 section 4.5.3. Remembers the last kMax calls for kKeptNs: longer than a client takes to
// reconnect, and shorter than it takes to reuse an XID.
class LostReplies {
 public:
  static constexpr size_t kMax = 64;
  static constexpr uint64_t kKeptNs = 120'000'000'000;

  void Add(const CallKey& key, uint64_t now_ns) {
    calls_[next_++ % kMax] = {key, now_ns};
    count_ = std::min(count_ + 1, kMax);
  }
  // Removes the call. Returns whether it was there.
  bool Take(const CallKey& key, uint64_t now_ns) {
    for (size_t i = 0; i < count_; ++i) {
      if (calls_[i].key != key) continue;
      if (now_ns > calls_[i].added_ns + kKeptNs) continue;
      // The places before next_ are the ones in use; which of them is the oldest no longer matters.
      calls_[i] = calls_[--count_];
      next_ = count_;
      return true;
    }
    return false;
  }
  size_t size() const { return count_; }

 private:
  struct Call {
    CallKey key;
    uint64_t added_ns = 0;
  };
  std::array<Call, kMax> calls_;
  size_t count_ = 0;
  size_t next_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_LOST_REPLIES_H_
