// A tap in the kernel with a port's MAC and addresses: the kernel's side of an interface whose wire
// Pollux owns.
#ifndef POLLUX_STACK_KERNEL_KERNEL_TAP_H_
#define POLLUX_STACK_KERNEL_KERNEL_TAP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/ip/interface.h"

struct rte_mbuf;
struct rte_mempool;

namespace pollux::kernel {

class KernelTap {
 public:
  // Creates the interface `name`, gives it the MAC, MTU, addresses and default routes of `config`,
  // and brings it up. Destroying the object removes the interface. Errors: InvalidArgument (name,
  // an address on a VLAN), NotFound (no tun device), PermissionDenied, AlreadyExists (the name),
  // Internal.
  static absl::StatusOr<std::unique_ptr<KernelTap>> Make(const std::string& name,
                                                         const ip::InterfaceConfig& config);
  ~KernelTap();
  KernelTap(const KernelTap&) = delete;
  KernelTap& operator=(const KernelTap&) = delete;

  // Returns Unavailable if the interface no longer exists. Makes a system call: for a control
  // thread, at any time.
  absl::Status CheckInterface() const;
  // Gives the interface the state of the port's link; at first it is up. Makes a system call that
  // takes the kernel's lock for all interfaces (RTNL).
  void SetCarrier(bool up) const;

  // Transfers whole Ethernet frames; non-blocking.
  int fd() const { return fd_; }

 private:
  KernelTap(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
  absl::Status Configure(const ip::InterfaceConfig& config);

  std::string name_;
  int fd_;
};

// Both make a system call per frame on `tap` (KernelTap::fd) and do not block.
//
// Writes the frames and frees them. Returns how many the kernel took: it refuses those that arrive
// while the interface is down. Frames in several segments are not written.
uint16_t WriteToTap(int tap, rte_mbuf** frames, uint16_t count);
// Reads up to `capacity` frames into buffers of `pool`; the caller then owns them. Drops frames
// longer than `frame_bytes`, which the kernel sends if its interface's MTU was raised, and adds
// their number to `too_long`. Frames for which the pool has no buffer wait in the tap.
uint16_t ReadFromTap(int tap, rte_mempool* pool, uint16_t frame_bytes, rte_mbuf** frames,
                     uint16_t capacity, uint64_t* too_long);

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_KERNEL_TAP_H_
