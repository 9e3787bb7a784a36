// What becomes of a call for which there is no memory.
#ifndef POLLUX_COMPAT_PROCESS_OOM_RESERVE_H_
#define POLLUX_COMPAT_PROCESS_OOM_RESERVE_H_

#include <cstddef>

namespace pollux::compat {

// Nothing here catches what operator new throws where the heap gives nothing: the process would
// end. So calls that make something ask before they begin (MemoryFor), and the small things that
// these, and whoever drives the worker, still take while memory is short come out of MemoryReserve.

// Keeps it back from now on, the first time in a process: for threads that drive the worker, of
// which `drives` says so, and for those within a MemoryFor. What else fails goes to the handler
// that the program has set (by std::set_new_handler()) before this; one that it sets later stands
// in the way of this. No thread that drives calls the program's: that may call here again.
void KeepOomReserve(bool (*drives)());

// Around what makes an object that takes about `bytes`: as many, and what the heap takes at once,
// are kept from other threads until it needs them. Not for another thread than the one that made
// it. They may be within each other; of more than kMaxWithin, the innermost ones in turn, the last
// has what is kept. One that a signal handler has left by longjmp(3) stays, and what it keeps,
// until memory is short or the thread leaves one around it.
class MemoryFor {
 public:
  static constexpr size_t kMaxWithin = 4;

  explicit MemoryFor(size_t bytes = 0);
  ~MemoryFor();
  MemoryFor(const MemoryFor&) = delete;
  MemoryFor& operator=(const MemoryFor&) = delete;

  // False, with ENOMEM in errno, when there is no memory for it: nothing is to be begun.
  explicit operator bool() const { return there_; }

 private:
  const size_t place_;
  bool there_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_OOM_RESERVE_H_
