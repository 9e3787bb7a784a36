// Handling of calls for which there is not enough memory.
#ifndef POLLUX_COMPAT_PROCESS_OOM_RESERVE_H_
#define POLLUX_COMPAT_PROCESS_OOM_RESERVE_H_

#include <cstddef>

namespace pollux::compat {

// Pollux does not catch the exception that operator new throws if the heap is exhausted: the
// process would end. Calls that create objects therefore check for memory before they start
// (MemoryFor). While memory is short, these calls and the threads that drive the worker still make
// small allocations; MemoryReserve serves those.

// Fills the reserve and installs a new-handler, the first time in a process. The handler gives
// memory of the reserve to threads that drive the worker (`drives` returns true on them) and to
// threads inside a MemoryFor. Other failures are passed to the handler that the program had set
// before by std::set_new_handler(); a handler that the program sets later replaces this one. On
// threads that drive the worker the program's handler is not called, because it might call Pollux
// again.
void KeepOomReserve(bool (*drives)());

// Used around the creation of an object of about `bytes` bytes: keeps this much memory, plus the
// amount by which the heap grows, from other threads until the creation needs it. Use it only on
// the thread that created it. Objects may be nested. Levels beyond kMaxWithin share the last slot;
// the memory kept there belongs to the innermost level. If a signal handler leaves the scope by
// longjmp(3), the memory remains reserved until memory is short or an enclosing MemoryFor ends.
class MemoryFor {
 public:
  static constexpr size_t kMaxWithin = 4;

  explicit MemoryFor(size_t bytes = 0);
  ~MemoryFor();
  MemoryFor(const MemoryFor&) = delete;
  MemoryFor& operator=(const MemoryFor&) = delete;

  // False, with ENOMEM in errno, if there is not enough memory: the creation must not be started.
  explicit operator bool() const { return there_; }

 private:
  const size_t place_;
  bool there_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_OOM_RESERVE_H_
