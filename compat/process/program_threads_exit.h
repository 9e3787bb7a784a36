// Detects the end of a program whose main() has ended by pthread_exit(3): it ends with its last
// thread.
#ifndef POLLUX_COMPAT_PROCESS_PROGRAM_THREADS_EXIT_H_
#define POLLUX_COMPAT_PROCESS_PROGRAM_THREADS_EXIT_H_

namespace pollux::compat {

// Marks the calling thread as one of the libraries' own during the object's lifetime. At most
// kMaxOwnThreads are recorded; a process has at most four. DPDK's threads are recognised by their
// names.
inline constexpr int kMaxOwnThreads = 8;
class OwnThread {
 public:
  OwnThread();
  ~OwnThread();
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
};

// Whether the main thread and all other threads of the program have ended, so that the process
// would end now if the libraries had no threads. Rely on it only if it is true twice in a row: a
// thread that creates another one and then ends may hide both from a single look. While the main
// thread exists, the function reads little more than that thread's entry in /proc. Returns false if
// /proc cannot be read.
bool OnlyOurThreadsAreLeft();

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_PROGRAM_THREADS_EXIT_H_
