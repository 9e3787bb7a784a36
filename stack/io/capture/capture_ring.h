// Passes copies of frames from a worker to the thread that writes them to a file.
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

// Frame copies of varying length, one after the other in one block of memory that is allocated at
// construction. One producer, the worker; one consumer, any other thread. Neither waits: a frame
// for which there is no room is counted and left out.
class CaptureRing {
 public:
  // Holds about 3,500 frames at path MTU 4096, or 100,000 acknowledgements. At 1 GB/s no frame is
  // lost if a busy machine keeps the writer from running for 10 ms.
  static constexpr size_t kDefaultBytes = 16u << 20;
  static constexpr unsigned kMaxStaged = 32;  // a burst

  struct Record {
    uint64_t time_ns;
    uint32_t length;    // bytes on the wire
    uint32_t captured;  // bytes that follow this header
    uint32_t size;      // bytes to the next record
    pcapng::Direction direction;
    bool skip;  // not a frame: fills the end of the memory

    const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  };

  // `bytes` is a power of two, at least twice what a frame can take.
  explicit CaptureRing(size_t bytes = kDefaultBytes);
  CaptureRing(const CaptureRing&) = delete;
  CaptureRing& operator=(const CaptureRing&) = delete;

  // Producer. Copies a frame without publishing it; at most kMaxStaged frames per Publish().
  void Stage(const rte_mbuf* frame, pcapng::Direction direction, uint64_t time_ns);
  // Publishes the first `count` staged frames and discards the others. A link did not accept those,
  // so they will be staged again.
  void Publish(unsigned count);

  // Consumer. Returns the oldest frame, valid until Pop(), or null if there is none.
  const Record* Front();
  void Pop();

  // For either side. seen() includes dropped frames.
  uint64_t seen() const { return seen_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kGrain = 32;  // record sizes are multiples of it: a header always fits
  static_assert(sizeof(Record) <= kGrain);

  Record* At(uint64_t position) {
    return reinterpret_cast<Record*>(memory_.get() + (position & mask_));
  }
  bool MakeRoom(uint64_t size);

  uint64_t mask_;
  std::unique_ptr<uint8_t[]> memory_;

  // Positions are not reduced modulo the size. Used only by the producer:
  uint64_t staged_end_ = 0;
  uint64_t known_tail_ = 0;
  unsigned staged_ = 0;
  std::array<uint64_t, kMaxStaged> ends_;    // the end of each staged frame
  std::array<bool, kMaxStaged> left_out_{};  // there was no room for it
  std::atomic<uint64_t> seen_{0};
  std::atomic<uint64_t> dropped_{0};
  alignas(64) std::atomic<uint64_t> head_{0};  // end of the published records
  alignas(64) std::atomic<uint64_t> tail_{0};  // start of the records not yet consumed
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_CAPTURE_CAPTURE_RING_H_
