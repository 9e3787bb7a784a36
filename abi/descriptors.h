// File descriptors that libraries open without asking that they be closed on exec.
#ifndef POLLUX_ABI_DESCRIPTORS_H_
#define POLLUX_ABI_DESCRIPTORS_H_

#include <vector>

namespace pollux::abi {

// DPDK's memory is a file and its ports are sockets: a program that this one starts would hold on
// to both, for as long as it runs. Control thread; threads that open descriptors at the same time
// are to want theirs closed too.
class NewDescriptors {
 public:
  NewDescriptors();  // knows those that are open now
  // Has all that were opened since closed when the process becomes another program.
  void CloseOnExec() const;

 private:
  std::vector<int> before_;  // in order
};

}  // namespace pollux::abi

#endif  // POLLUX_ABI_DESCRIPTORS_H_
