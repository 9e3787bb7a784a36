// UDP port 4791 of an interface, bound so that the kernel leaves RoCE packets to Pollux.
#ifndef POLLUX_STACK_KERNEL_ROCE_UDP_PORT_H_
#define POLLUX_STACK_KERNEL_ROCE_UDP_PORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/fd.h"
#include "stack/kernel/name_claim.h"

namespace pollux::kernel {

// A kernel with a socket at the port sends no ICMP port unreachable to Pollux's peers. Nothing is
// read from it, and all that arrives is dropped. Of the processes that share the interface one
// binds the port, so that no program of another user can bind it too and read what arrives there;
// when it ends, another one takes over. Makes system calls.
class RoceUdpPort {
 public:
  // Binds the port on the interface, unless another process of Pollux has bound it. AlreadyExists
  // if another program has, such as Linux's soft-RoCE; Internal if the kernel refuses.
  static absl::StatusOr<std::unique_ptr<RoceUdpPort>> Hold(const std::string& interface,
                                                           uint32_t interface_index);
  // Binds the port if the process that had it has ended. Call it from time to time.
  void TakeOver();
  bool is_bound() const { return claim_.has_value(); }

 private:
  RoceUdpPort(const std::string& interface, uint32_t interface_index)
      : interface_(interface), interface_index_(interface_index) {}
  absl::Status Bind();

  const std::string interface_;
  const uint32_t interface_index_;
  // Destroyed after the sockets, so that the port is free when the next process has the claim.
  std::optional<NameClaim> claim_;
  Fd ipv4_;
  Fd ipv6_;  // none if the kernel has no IPv6
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_ROCE_UDP_PORT_H_
