// The calls whose reply could not be given because what the client offered for it failed, and the
// connection with it.
#ifndef POLLUX_RPCRDMA_RESPONDER_LOST_REPLIES_H_
#define POLLUX_RPCRDMA_RESPONDER_LOST_REPLIES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "rpcrdma/responder/reply_cache.h"

namespace pollux::rpcrdma {

// Shared by all connections of a server; one owner. A client that sends such a call again would
// lose connection after connection by it: the server says ERR_CHUNK instead, once. RFC 8166 section
// 4.5.3. Remembers the last kMax, for kKeptNs: longer than a client takes to come back, and shorter
// than it takes to come to the same XID again.
class LostReplies {
 public:
  static constexpr size_t kMax = 64;
  static constexpr uint64_t kKeptNs = 120'000'000'000;

  void Add(const CallKey& key, uint64_t now_ns) {
    calls_[next_++ % kMax] = {key, now_ns};
    count_ = std::min(count_ + 1, kMax);
  }
  // Whether it was there; not any more then.
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
