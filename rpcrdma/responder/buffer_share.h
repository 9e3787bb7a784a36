// What the connections of one client have of a server's large buffers.
#ifndef POLLUX_RPCRDMA_RESPONDER_BUFFER_SHARE_H_
#define POLLUX_RPCRDMA_RESPONDER_BUFFER_SHARE_H_

#include <cstdint>

#include "rpcrdma/responder/buffer_pool.h"

namespace pollux::rpcrdma {

// Bounded by what is left for others: a client may hold as many as are free. So one that is alone
// has half of them, and a few that take all that they get leave some to those that have none. One
// that was seen to keep them has a narrow share for a time. One owner, the pool's.
class BufferShare {
 public:
  // As many as a call can need.
  static constexpr size_t kNarrow = 2;

  // `pool` outlives it. Narrow until then.
  explicit BufferShare(BufferPool* pool, uint64_t narrow_until_ns = 0)
      : pool_(pool), narrow_until_ns_(narrow_until_ns) {}

  const BufferPool& pool() const { return *pool_; }
  size_t held() const { return held_; }
  void Narrow(uint64_t until_ns) { narrow_until_ns_ = until_ns; }
  bool IsNarrow(uint64_t now_ns) const { return now_ns < narrow_until_ns_; }
  // Whether so many may be taken at once. One that holds none may as long as there are enough; one
  // for which there are not even those of a narrow share lets the pool know.
  bool Allows(size_t count, uint64_t now_ns) {
    const bool is_little = held_ + count <= kNarrow;
    if (!is_little && IsNarrow(now_ns)) return false;
    const size_t free = pool_->available();
    const bool allowed = free >= count && (held_ == 0 || held_ + count <= free - count);
    if (!allowed && is_little) pool_->Want(now_ns);
    return allowed;
  }
  uint8_t* Take() {
    ++held_;
    return pool_->Take();
  }
  void Give(uint8_t* buffer) {
    --held_;
    pool_->Give(buffer);
  }

 private:
  BufferPool* pool_;
  uint64_t narrow_until_ns_;
  size_t held_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_BUFFER_SHARE_H_
