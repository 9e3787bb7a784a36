// A network interface of the kernel; its state is followed through rtnetlink.
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
#include "stack/kernel/roce_udp_port.h"

namespace pollux::kernel {

// Also holds UDP port 4791 on the interface (RoceUdpPort). Workers that share the interface have
// one object each; only the first one holds that port.
class KernelInterface final : public ip::HostInterface {
 public:
  // Errors: NotFound (no such interface), AlreadyExists (UDP port 4791 is in use on it by another
  // program than Pollux, such as Linux's soft-RoCE), Internal (the kernel refuses).
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
  // Requests everything except neighbours.
  absl::Status ReadState(ip::KernelState* state);
  void ReadNeighbours(std::vector<ip::KernelNeighbour>* found);
  // Returns whether the kernel did it on this socket; if not, errno is set.
  bool ChangeGroup(int socket, const Gid& group, bool join) const;

  std::string name_;
  uint32_t index_;
  io::NetlinkSocket news_;
  io::NetlinkSocket requests_;
  std::unique_ptr<RoceUdpPort> roce_port_;  // null: another worker has it
  uint32_t polls_ = 0;
  // Each socket joins groups of one IP version, as many as the kernel allows per socket
  // (igmp_max_memberships, 20 by default).
  std::vector<int> group_sockets_;
  std::map<Gid, int> joined_;  // each group with its socket
  ip::KernelState state_;
  bool is_stale_ = false;  // the kernel announced a change that has not been read
  std::vector<ip::KernelNeighbour> answers_;  // to Solicit(), for the next Poll()
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_KERNEL_INTERFACE_H_
