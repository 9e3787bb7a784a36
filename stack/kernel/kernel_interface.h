// An interface of the kernel's, followed by rtnetlink.
#ifndef POLLUX_STACK_KERNEL_KERNEL_INTERFACE_H_
#define POLLUX_STACK_KERNEL_KERNEL_INTERFACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/io/port/netlink.h"
#include "stack/ip/host_interface.h"

namespace pollux::kernel {

// Holds UDP port 4791 on the interface as well, without ever reading from it: a kernel that has a
// socket there does not tell Pollux's peers that the port is unreachable. Workers that share the
// interface have one each, of which the first holds the port.
class KernelInterface final : public ip::HostInterface {
 public:
  // NotFound (no such interface), AlreadyExists (UDP port 4791 is taken on it: Linux's soft-RoCE,
  // or another Pollux), Internal (the kernel refuses).
  static absl::StatusOr<std::unique_ptr<KernelInterface>> Open(const std::string& name,
                                                               bool hold_port = true);
  ~KernelInterface() override;
  KernelInterface(const KernelInterface&) = delete;
  KernelInterface& operator=(const KernelInterface&) = delete;

  bool Poll(std::vector<ip::KernelNeighbour>* found) override;
  const ip::KernelState& state() const override { return state_; }
  void Solicit(const Gid& target) override;
  absl::Status Join(const Gid& group) override;
  absl::Status Leave(const Gid& group) override;

 private:
  KernelInterface(std::string name, uint32_t index, io::NetlinkSocket news,
                  io::NetlinkSocket requests)
      : name_(std::move(name)),
        index_(index),
        news_(std::move(news)),
        requests_(std::move(requests)) {}
  absl::Status HoldPort();
  absl::StatusOr<int> HoldPort(int family);
  // Asks for everything but neighbours.
  absl::Status ReadState(ip::KernelState* state);
  // Whether the kernel did it on this socket; errno says why not.
  bool ChangeGroup(int socket, const Gid& group, bool join) const;

  std::string name_;
  uint32_t index_;
  io::NetlinkSocket news_;
  io::NetlinkSocket requests_;
  int port_ipv4_ = -1;
  int port_ipv6_ = -1;  // -1 too where the kernel has no IPv6
  // One for every so many groups, each of one IP version: the kernel bounds what a socket may join
  // (igmp_max_memberships, 20 by default).
  std::vector<int> group_sockets_;
  std::map<Gid, int> joined_;  // each with its socket
  ip::KernelState state_;
  bool is_stale_ = false;                     // there is news of the state that is yet to be read
  std::vector<ip::KernelNeighbour> answers_;  // to Solicit(), for the next Poll()
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_KERNEL_INTERFACE_H_
