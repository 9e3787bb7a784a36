// File descriptors that libraries open without O_CLOEXEC.
#ifndef POLLUX_COMPAT_PROCESS_DESCRIPTORS_H_
#define POLLUX_COMPAT_PROCESS_DESCRIPTORS_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pollux::compat {

// A file descriptor, and the file to which it referred when it was recorded.
struct HeldDescriptor {
  int fd;
  dev_t device;
  ino_t inode;
};

// DPDK's memory is a file and its ports are sockets; a program that this one starts would inherit
// both and keep them open as long as it runs. Use it on a control thread. Descriptors that other
// threads open meanwhile are treated the same, so it must be safe to close those, too.
class NewDescriptors {
 public:
  NewDescriptors();  // records the descriptors that are open now
  // Sets close-on-exec on all descriptors opened since construction.
  void CloseOnExec() const;
  // Returns those of them that keep a port of the kernel open: UDP sockets bound to `udp_port`, or
  // only to an interface, packet sockets, XDP sockets and TAPs. No others, because a forked child
  // closes them (LetGo()).
  std::vector<HeldDescriptor> OfPort(uint16_t udp_port) const;

 private:
  std::vector<int> OpenedSince() const;
  std::vector<int> before_;  // sorted
};

// Returns the AF_UNIX sockets that are bound or connected to `address`, a path or an abstract name.
// The result changes as processes connect.
std::vector<HeldDescriptor> SocketsAt(const std::string& address);

// Returns the AF_UNIX sockets that are bound to a name that begins with `prefix`.
std::vector<HeldDescriptor> SocketsUnder(std::string_view prefix);

// As NewDescriptors::CloseOnExec().
void CloseOnExec(std::span<const HeldDescriptor> descriptors);

// Closes the recorded files in this process, except where the descriptor refers to another file by
// now. The descriptor numbers remain in use (for /dev/null), because their owners may still close
// them. A packet socket whose ring is mapped nevertheless exists until the process ends.
// Async-signal-safe.
void LetGo(std::span<const HeldDescriptor> descriptors);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_DESCRIPTORS_H_
