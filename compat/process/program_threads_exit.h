// The end of a program whose main() ends by pthread_exit(3): with the last of its threads.
#ifndef POLLUX_COMPAT_PROCESS_PROGRAM_THREADS_EXIT_H_
#define POLLUX_COMPAT_PROCESS_PROGRAM_THREADS_EXIT_H_

namespace pollux::compat {

// A thread that is the libraries' own, for as long as this lives on it. At most kMaxOwnThreads are
// known: a process has two. Those of DPDK are known by their names.
inline constexpr int kMaxOwnThreads = 8;
class OwnThread {
 public:
  OwnThread();
  ~OwnThread();
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
};

// Whether the main thread has ended and so has every other one of the program: with the last of
// them the process would end, if it had no threads but these. Who finds it so twice in a row may
// believe it: a thread that makes another and ends meanwhile may hide both from one look. While
// the main thread lives, little more is read than its line. False where /proc does not say.
bool OnlyOurThreadsAreLeft();

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_PROGRAM_THREADS_EXIT_H_
