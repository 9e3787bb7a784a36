// File descriptors that libraries open without asking that they be closed on exec.
#ifndef POLLUX_COMPAT_PROCESS_DESCRIPTORS_H_
#define POLLUX_COMPAT_PROCESS_DESCRIPTORS_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pollux::compat {

// A number, and what it stood for when it was noted down.
struct HeldDescriptor {
  int fd;
  dev_t device;
  ino_t inode;
};

// DPDK's memory is a file and its ports are sockets: a program that this one starts would hold on
// to both, for as long as it runs. Control thread; threads that open descriptors at the same time
// are to want theirs closed too.
class NewDescriptors {
 public:
  NewDescriptors();  // knows those that are open now
  // Has all that were opened since closed when the process becomes another program.
  void CloseOnExec() const;
  // Those among them that hold a port of the kernel's for whoever has them open: UDP sockets bound
  // to `udp_port`, packet sockets and TAPs. No others, since a child lets go of them.
  std::vector<HeldDescriptor> OfPort(uint16_t udp_port) const;

 private:
  std::vector<int> OpenedSince() const;
  std::vector<int> before_;  // in order
};

// The sockets of AF_UNIX at that address, and those whose other end is there: a path, or a name
// that is none of the file system's. They come and go with who connects.
std::vector<HeldDescriptor> SocketsAt(const std::string& address);

// As NewDescriptors::CloseOnExec().
void CloseOnExec(std::span<const HeldDescriptor> descriptors);

// What they stand for is closed here, if it is what they stood for; their numbers stay taken, since
// who knows them may still close them. A packet socket whose ring is mapped stays until the process
// ends all the same. Async-signal-safe.
void LetGo(std::span<const HeldDescriptor> descriptors);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_DESCRIPTORS_H_
