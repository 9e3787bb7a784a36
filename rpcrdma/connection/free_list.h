// A bounded list of free numbers. The number that was given back last is taken first, because its
// memory is most likely in the cache.
#ifndef POLLUX_RPCRDMA_CONNECTION_FREE_LIST_H_
#define POLLUX_RPCRDMA_CONNECTION_FREE_LIST_H_

#include <cassert>
#include <cstdint>
#include <memory>

namespace pollux::rpcrdma {

class FreeList {
 public:
  // Holds the numbers from `first` to `first + count - 1`; the lowest is taken first.
  void Fill(uint32_t first, uint32_t count) {
    numbers_.reset(new uint32_t[count]);
    capacity_ = size_ = count;
    for (uint32_t i = 0; i < count; ++i) numbers_[i] = first + count - 1 - i;
  }

  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  uint32_t capacity() const { return capacity_; }
  // The number that Take() returns. The list must not be empty.
  uint32_t next() const { return numbers_[size_ - 1]; }
  uint32_t Take() { return numbers_[--size_]; }
  void Give(uint32_t number) {
    assert(size_ < capacity_);
    numbers_[size_++] = number;
  }

 private:
  std::unique_ptr<uint32_t[]> numbers_;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_FREE_LIST_H_
