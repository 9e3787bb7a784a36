// Blocks of one file on the way, several at once.
#ifndef POLLUX_TOOLS_COMMON_BLOCKS_H_
#define POLLUX_TOOLS_COMMON_BLOCKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

#include "absl/status/status.h"

namespace pollux::tools {

// Made and destroyed by the waiting thread, which keeps it until future() is ready; all else on the
// core of the client that moves the blocks.
class Blocks {
 public:
  struct Shape {
    uint64_t total = 0;        // bytes of the file
    uint32_t block_bytes = 1;  // of a block, but the last
    int in_flight = 1;         // blocks at once, each in a buffer of its own
  };
  explicit Blocks(const Shape& shape);
  virtual ~Blocks() = default;

  void Start();
  // The end of all blocks: the first error, or OK. An interrupt is Cancelled.
  std::future<absl::Status> future() { return finished_.get_future(); }
  const std::atomic<uint64_t>& done() const { return done_; }  // bytes

 protected:
  // Moves the block at `offset`, by buffers_[buffer]; calls Moved() in the end, at once or later.
  virtual void Move(size_t buffer, uint64_t offset, uint32_t bytes) = 0;
  // Whether there is another block to move, and which. By default each, in order.
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
