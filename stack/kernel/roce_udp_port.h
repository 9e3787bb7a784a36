// UDP port 4791 of an interface, bound so that the kernel leaves RoCE packets to Pollux.
#ifndef POLLUX_STACK_KERNEL_ROCE_UDP_PORT_H_
#define POLLUX_STACK_KERNEL_ROCE_UDP_PORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  // Binds the port on the interface, unless another process of Pollux has bound it. May block for
  // 0.5 s. AlreadyExists if another program has it, such as Linux's soft-RoCE; Internal if the
  // kernel refuses.
  static absl::StatusOr<std::unique_ptr<RoceUdpPort>> Hold(const std::string& interface,
                                                           uint32_t interface_index);
  // Binds the port if the process that had it has ended. Call it from time to time.
  void TakeOver();
  bool is_bound() const;

 private:
  // Opened by the user who started the program, on the interface, and bound once.
  struct Socket {
    Fd fd;
    int family;
    bool is_bound = false;
  };

  explicit RoceUdpPort(std::string claim) : claim_name_(std::move(claim)) {}
  // Returns 0 or the error's number.
  int Bind();

  const std::string claim_name_;
  std::vector<Socket> sockets_;     // of IPv4, and of IPv6 if the kernel has it
  std::optional<NameClaim> claim_;  // says that a program of Pollux has the port
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_ROCE_UDP_PORT_H_
