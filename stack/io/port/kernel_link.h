// The link state of a network interface of the kernel.
#ifndef POLLUX_STACK_IO_PORT_KERNEL_LINK_H_
#define POLLUX_STACK_IO_PORT_KERNEL_LINK_H_

#include <cstdint>
#include <string>

namespace pollux::io {

struct LinkState {
  bool up = true;
  uint32_t speed_mbps = 0;  // 0: unknown
  uint16_t mtu = 0;         // bytes of an IP packet; 0: unknown
  bool gone = false;        // the interface on which it was opened no longer exists
  friend bool operator==(const LinkState&, const LinkState&) = default;
};

// Looks up the interface in the network namespace of `socket`, of any kind; `gone` is true if there
// is none of this name. Makes system calls, none of which needs a free file descriptor. Source:
// netdevice(7) (IFF_RUNNING), linux/ethtool.h.
LinkState KernelLink(int socket, const std::string& interface);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_KERNEL_LINK_H_
