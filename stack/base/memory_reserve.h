// Memory kept in reserve for small allocations when the heap is exhausted.
#ifndef POLLUX_STACK_BASE_MEMORY_RESERVE_H_
#define POLLUX_STACK_BASE_MEMORY_RESERVE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pollux {

// Pollux does not catch the exception that operator new throws if the heap is exhausted: the
// process would end. So some address space is reserved without touching its pages; when memory is
// short, operator new uses a piece of it, and work in progress can be finished. Code that is about
// to begin something new for a peer checks the reserve first:
//
//   the reserve is   a new connection is   a call is
//   whole            accepted              accepted
//   not whole        refused               accepted
//   low              refused               deferred
//
// Large objects (queues, buffers) are not allocated with operator new. If there is no memory for
// one, its creation fails, without using the reserve. One per process; all functions are
// thread-safe.
class MemoryReserve {
 public:
  static constexpr size_t kBytes = 4 << 20;
  static constexpr uint32_t kPieces = 16;

  // Fills the reserve and installs a new-handler that uses it. Does nothing if the program has a
  // handler of its own (std::set_new_handler).
  static void Install();
  // Reserves the missing pieces, as far as there is memory, and returns whether the reserve is
  // whole. A program with its own new-handler that calls GiveUpPiece() calls this instead of
  // Install().
  static bool Fill();
  // Returns a piece to the heap. Returns false if none is left.
  static bool GiveUpPiece();

  // Always true if no reserve was ever filled.
  static bool IsWhole() { return missing_.load(std::memory_order_relaxed) == 0 || Fill(); }
  static bool IsLow() {
    return missing_.load(std::memory_order_relaxed) > kPieces / 2 && !Fill() &&
           missing_.load(std::memory_order_relaxed) > kPieces / 2;
  }

  // While this object exists, pieces that were given up are not replaced.
  class ShortageForTest {
   public:
    ShortageForTest() { may_fill_ = false; }
    ~ShortageForTest() { may_fill_ = true; }
    ShortageForTest(const ShortageForTest&) = delete;
    ShortageForTest& operator=(const ShortageForTest&) = delete;
  };

 private:
  static std::atomic<uint32_t> missing_;
  static std::atomic<bool> may_fill_;
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_MEMORY_RESERVE_H_
