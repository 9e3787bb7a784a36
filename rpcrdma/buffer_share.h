// What the connections of one client have of a server's large buffers.
#ifndef POLLUX_RPCRDMA_BUFFER_SHARE_H_
#define POLLUX_RPCRDMA_BUFFER_SHARE_H_

#include <cstdint>

#include "rpcrdma/buffer_pool.h"

namespace pollux::rpcrdma {

// Bounded by what is left for others: a client may hold as many as are free. So one that is alone
// has half of them, and a few that take all that they get leave some to those that have none. One
// owner, the pool's.
class BufferShare {
 public:
  // `pool` outlives it.
  explicit BufferShare(BufferPool* pool) : pool_(pool) {}

  const BufferPool& pool() const { return *pool_; }
  // Whether so many may be taken at once. One that holds none may as long as there are enough.
  bool Allows(size_t count) const {
    const size_t free = pool_->available();
    if (free < count) return false;
    return held_ == 0 || held_ + count <= free - count;
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
  size_t held_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_BUFFER_SHARE_H_
