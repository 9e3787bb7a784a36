// Copies of frames on their way from a worker to the thread that writes them down.
#ifndef POLLUX_STACK_IO_CAPTURE_CAPTURE_RING_H_
#define POLLUX_STACK_IO_CAPTURE_CAPTURE_RING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "stack/io/capture/pcapng.h"

struct rte_mbuf;

namespace pollux::io {

// Frame copies of varying length, end to end in one block of memory that is taken at construction.
// One producer, the worker; one consumer, any other thread. Neither waits: what finds no room is
// counted and left out.
class CaptureRing {
 public:
  // Of the memory: some 3,500 frames of path MTU 4096, or 100,000 acknowledgements. A writer that
  // a busy machine keeps from its CPU for 10 ms misses nothing at 1 GB/s.
  static constexpr size_t kDefaultBytes = 16u << 20;
  static constexpr unsigned kMaxStaged = 32;  // a burst

  struct Record {
    uint64_t time_ns;
    uint32_t length;    // bytes on the wire
    uint32_t captured;  // bytes that follow this header
    uint32_t size;      // bytes to the next record
    pcapng::Direction direction;
    bool skip;  // fills the end of the memory

    const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  };

  // `bytes` is a power of two, at least twice what a frame can take.
  explicit CaptureRing(size_t bytes = kDefaultBytes);
  CaptureRing(const CaptureRing&) = delete;
  CaptureRing& operator=(const CaptureRing&) = delete;

  // Producer. Copies a frame without showing it yet; at most kMaxStaged between two Publish().
  void Stage(const rte_mbuf* frame, pcapng::Direction direction, uint64_t time_ns);
  // Shows the first `count` of what was staged and forgets the rest: frames that a link did not
  // take come again.
  void Publish(unsigned count);

  // Consumer. The oldest, until Pop(); null when there is none.
  const Record* Front();
  void Pop();

  // Either side.
  uint64_t seen() const { return seen_.load(std::memory_order_relaxed); }  // shown and dropped
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kGrain = 32;  // record sizes are multiples: a header fits at each place
  static_assert(sizeof(Record) <= kGrain);

  Record* At(uint64_t position) {
    return reinterpret_cast<Record*>(memory_.get() + (position & mask_));
  }
  bool MakeRoom(uint64_t size);

  uint64_t mask_;
  std::unique_ptr<uint8_t[]> memory_;

  // Positions run freely. Producer's own:
  uint64_t staged_end_ = 0;
  uint64_t known_tail_ = 0;
  unsigned staged_ = 0;
  std::array<uint64_t, kMaxStaged> ends_;    // of each staged frame
  std::array<bool, kMaxStaged> left_out_{};  // it found no room
  std::atomic<uint64_t> seen_{0};
  std::atomic<uint64_t> dropped_{0};
  alignas(64) std::atomic<uint64_t> head_{0};  // end of what is shown
  alignas(64) std::atomic<uint64_t> tail_{0};  // start of what is not yet consumed
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_CAPTURE_CAPTURE_RING_H_
