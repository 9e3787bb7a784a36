// Whether this process was forked from the one that has the port.
#ifndef POLLUX_COMPAT_PROCESS_FORKED_CHILD_H_
#define POLLUX_COMPAT_PROCESS_FORKED_CHILD_H_

namespace pollux::compat {

// Only the process that has the port may use the resources that it shares with its forked children:
// DPDK's memory and the files behind descriptors. A child that reads an eventfd, for example, takes
// a wake-up from its parent.
class ForkedChild {
 public:
  static bool Is() { return is_; }
  // Called in the child before fork(2) returns.
  static void Become() { is_ = true; }

 private:
  static inline bool is_ = false;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_FORKED_CHILD_H_
