// Transfers a file in blocks, several at once.
#ifndef POLLUX_TOOLS_COMMON_BLOCKS_H_
#define POLLUX_TOOLS_COMMON_BLOCKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

#include "absl/status/status.h"

namespace pollux::tools {

// Created and destroyed by the waiting thread, which must keep it until future() is ready.
// Everything else runs on the core of the client that transfers the blocks.
class Blocks {
 public:
  struct Shape {
    uint64_t total = 0;        // bytes of the file
    uint32_t block_bytes = 1;  // per block; the last one may be shorter
    int in_flight = 1;         // blocks at once, each in its own buffer
  };
  explicit Blocks(const Shape& shape);
  virtual ~Blocks() = default;

  void Start();
  // Ready when all blocks have ended: OK or the first error (Cancelled after an interrupt).
  std::future<absl::Status> future() { return finished_.get_future(); }
  const std::atomic<uint64_t>& done() const { return done_; }  // bytes

 protected:
  // Transfers the block at `offset` through buffers_[buffer]. Calls Moved() when it is done, during
  // this call or later.
  virtual void Move(size_t buffer, uint64_t offset, uint32_t bytes) = 0;
  // Returns whether there is another block to transfer, and its offset. By default each block in
  // order.
  virtual bool Take(uint64_t* offset);

  void Moved(size_t buffer, const absl::Status& status, uint64_t bytes);

  const Shape shape_;
  std::vector<std::vector<uint8_t>> buffers_;

 private:
  void Next(size_t buffer);

  uint64_t next_ = 0;
  int under_way_ = 0;
  bool told_ = false;
  absl::Status status_;
  std::atomic<uint64_t> done_{0};
  std::promise<absl::Status> finished_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_BLOCKS_H_
