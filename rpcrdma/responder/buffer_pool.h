// The large buffers of a server, for the data of Read chunks and for long replies.
#ifndef POLLUX_RPCRDMA_RESPONDER_BUFFER_POOL_H_
#define POLLUX_RPCRDMA_RESPONDER_BUFFER_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace pollux::rpcrdma {

// Allocated at creation and shared by all connections of a server. Each connection registers the
// whole pool in its own protection domain, for local access only. Used on the server's core.
class BufferPool {
 public:
  BufferPool(uint32_t count, uint32_t bytes)
      : bytes_(bytes),
        memory_(new uint8_t[uint64_t{count} * bytes]),
        size_(uint64_t{count} * bytes) {
    for (uint32_t i = count; i > 0; --i) free_.push_back(memory_.get() + uint64_t{i - 1} * bytes);
  }

  uint32_t buffer_bytes() const { return bytes_; }
  absl::Span<uint8_t> memory() const { return {memory_.get(), size_}; }
  size_t available() const { return free_.size(); }
  // Only when available() > 0.
  uint8_t* Take() {
    uint8_t* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void Give(uint8_t* buffer) { free_.push_back(buffer); }

  // Records that a client which needs no more than a narrow share has to wait.
  void Want(uint64_t now_ns) { wanted_ns_ = now_ns; }
  // Whether such a client waits. A waiting client calls Want() repeatedly.
  bool IsWanted(uint64_t now_ns) const {
    return wanted_ns_ != 0 && now_ns - wanted_ns_ < kWantedNs;
  }

 private:
  static constexpr uint64_t kWantedNs = 1'000'000'000;
  uint32_t bytes_;
  std::unique_ptr<uint8_t[]> memory_;
  uint64_t size_;
  std::vector<uint8_t*> free_;
  uint64_t wanted_ns_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_BUFFER_POOL_H_
