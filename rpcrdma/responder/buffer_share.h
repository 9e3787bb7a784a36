// The share of one client, with all its connections, in a server's large buffers.
#ifndef POLLUX_RPCRDMA_RESPONDER_BUFFER_SHARE_H_
#define POLLUX_RPCRDMA_RESPONDER_BUFFER_SHARE_H_

#include <cstdint>

#include "rpcrdma/responder/buffer_pool.h"

namespace pollux::rpcrdma {

// A client may hold at most as many buffers as are free. A single client thus gets half of them,
// and a few clients that take all they can get leave some for clients that have none. A client that
// was found to keep buffers for too long has a narrow share for a time. Used on the server's core.
class BufferShare {
 public:
  // The size of a narrow share: the most buffers that one call can need.
  static constexpr size_t kNarrow = 2;

  // `pool` must outlive this object. The share is narrow until `narrow_until_ns`.
  explicit BufferShare(BufferPool* pool, uint64_t narrow_until_ns = 0)
      : pool_(pool), narrow_until_ns_(narrow_until_ns) {}

  const BufferPool& pool() const { return *pool_; }
  size_t held() const { return held_; }
  void Narrow(uint64_t until_ns) { narrow_until_ns_ = until_ns; }
  bool IsNarrow(uint64_t now_ns) const { return now_ns < narrow_until_ns_; }
  // Whether `count` more buffers may be taken at once. A client that holds none may take them if
  // enough are free. If even a narrow share is not available, the pool is informed
  // (BufferPool::Want()).
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
