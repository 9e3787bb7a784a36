// A bounded first-in first-out queue, allocated once.
#ifndef POLLUX_RPCRDMA_RESPONDER_FIFO_H_
#define POLLUX_RPCRDMA_RESPONDER_FIFO_H_

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace pollux::rpcrdma {

template <class T>
class Fifo {
 public:
  explicit Fifo(size_t capacity) : ring_(capacity) {}

  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  const T& front() const { return ring_[head_]; }
  // The queue must not be full; the number of items that the caller has is bounded by its capacity.
  void Push(T item) {
    assert(count_ < ring_.size());
    ring_[(head_ + count_++) % ring_.size()] = std::move(item);
  }
  T Pop() {
    T item = std::move(ring_[head_]);
    head_ = (head_ + 1) % ring_.size();
    --count_;
    return item;
  }
  void Clear() { count_ = 0; }

 private:
  std::vector<T> ring_;
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_FIFO_H_
