// What small things are made of while the heap gives nothing.
#ifndef POLLUX_STACK_BASE_MEMORY_RESERVE_H_
#define POLLUX_STACK_BASE_MEMORY_RESERVE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pollux {

// Nothing here catches what operator new throws where the heap gives nothing: the process would
// end. So address space is kept back, of which no page is touched; operator new takes a piece of it
// then, and work in hand is finished. Whoever is about to begin something for a peer looks here
// first:
//
//   the reserve is   a connection that is asked for   a call
//   whole            made                             taken
//   not whole        refused                          taken
//   low              refused                          waits
//
// Large things (queues, buffers) are not made by operator new, and leave the reserve alone: they
// are refused. One a process; all functions from any thread.
class MemoryReserve {
 public:
  static constexpr size_t kBytes = 4 << 20;
  static constexpr uint32_t kPieces = 16;

  // From now on, unless the program has a handler of its own (std::set_new_handler): that decides
  // what becomes of the process.
  static void Install();
  // Keeps it, if that can be done now. Without Install() for who has a handler that calls
  // GiveUpPiece(). Whether it is whole.
  static bool Fill();
  // To the heap. False when nothing is left.
  static bool GiveUpPiece();

  // Where nothing is kept, it is whole.
  static bool IsWhole() { return missing_.load(std::memory_order_relaxed) == 0 || Fill(); }
  static bool IsLow() {
    return missing_.load(std::memory_order_relaxed) > kPieces / 2 && !Fill() &&
           missing_.load(std::memory_order_relaxed) > kPieces / 2;
  }

  // While it lives, memory is as short as can be: nothing of what was given up can be had again.
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
