// Whether this process is the copy, by fork(2), of one that has the port.
#ifndef POLLUX_COMPAT_PROCESS_FORKED_CHILD_H_
#define POLLUX_COMPAT_PROCESS_FORKED_CHILD_H_

namespace pollux::compat {

// What a copy shares with the process that has the port is that one's alone: the memory of DPDK,
// and what stands behind descriptors. An eventfd that a copy reads is a wake-up that the other
// loses.
class ForkedChild {
 public:
  static bool Is() { return is_; }
  // In the child, before fork(2) returns there.
  static void Become() { is_ = true; }

 private:
  static inline bool is_ = false;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_FORKED_CHILD_H_
