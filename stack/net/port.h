// One DPDK ethdev, opened by its devargs: the wire of a worker.
#ifndef POLLUX_STACK_NET_PORT_H_
#define POLLUX_STACK_NET_PORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/types.h"
#include "stack/net/devargs.h"
#include "stack/net/kernel_link.h"
#include "stack/transport/link.h"

struct rte_device;
struct rte_mempool;
struct rte_ring;

namespace pollux::net {

struct PortOptions {
  // "net_tap0,iface=plx0", "net_memif0,role=client,socket=/run/x.sock", "0000:03:00.0". Arguments
  // that a driver needs to carry large frames are added where they are missing (port_driver.h).
  std::string devargs;
  // Where received frames come from; not owned, outlives the open port. Its data room bounds what
  // the port can carry. Without one, or where the driver demands larger buffers, the port makes
  // its own.
  rte_mempool* pool = nullptr;
  // Instead of the device's own address.
  std::optional<MacAddress> mac;
  // How long a memif client waits for its server.
  uint32_t start_timeout_ms = 5000;
};

// What the device counts; zero where its driver does not.
struct PortStatistics {
  uint64_t rx_frames, tx_frames, rx_bytes, tx_bytes;
  uint64_t rx_missed;     // the ring was full
  uint64_t rx_no_buffer;  // the pool was dry
  uint64_t rx_errors, tx_errors;
  uint64_t tx_over_mtu;  // longer than the kernel's interface carries since its MTU was lowered
};

// Opened and closed on a control thread; Receive() and Send() belong to the worker of queue 0, the
// only queue so far. Frames longer than the buffers of the pool are refused by the drivers at
// set-up or arrive in several segments, which receivers drop (Drop::kScattered).
class Port : public transport::Link {
 public:
  // EAL must be initialised. Blocks for up to start_timeout_ms. Errors say what was asked, what was
  // found and what to do: InvalidArgument (devargs), NotFound (interface, device),
  // PermissionDenied (needs root), AlreadyExists (taken), Unavailable (no memif server),
  // FailedPrecondition (interface down), ResourceExhausted (buffers), Internal (driver refuses).
  static absl::StatusOr<std::unique_ptr<Port>> Open(const PortOptions& options);

  // Two ports of this process joined by two rings: no root, no hugepages, no NIC, and the frames
  // are passed by pointer, so each side frees what the other allocated. `name` is unique in the
  // process; the pools are those of the workers on either side (not owned), and the smaller data
  // room bounds the MTU of both.
  using Pair = std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>>;
  static absl::StatusOr<Pair> CreateRingPair(const std::string& name, rte_mempool* pool_a,
                                             rte_mempool* pool_b);
  static constexpr unsigned kRingFrames = 1024;  // that lie in each of the two rings at most

  ~Port() override;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Stops the device and frees every frame that it and its rings hold; nothing is received or sent
  // afterwards. To be called when no worker polls the port any more (of a ring pair: either port)
  // and before a pool goes whose frames may lie in it, the peer's of a ring pair included. A memif
  // driver can crash when its peer goes away while it is polled: end connections (DREQ) on both
  // sides first.
  void Close();

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  const std::string& name() const { return name_; }
  const MacAddress& mac() const { return mac_; }
  // What one frame really carries, in bytes from the IP header up (InterfaceConfig::mtu).
  uint16_t mtu() const { return mtu_; }
  // Whether the far side is there, and the speed that driver or kernel give. Makes system calls
  // with some drivers: not for the packet path.
  LinkState GetLink() const;
  // The same, on the core that sends, which from then on drops and counts what the interface of the
  // kernel's no longer carries: the kernel would drop it without a word.
  LinkState FollowLink();
  PortStatistics Statistics() const;
  // Unavailable when the interface of the kernel's that the port stands on is gone, whatever its
  // name is now. Makes a system call: for a control thread, at any time.
  absl::Status CheckInterface() const;

 private:
  struct Rings;  // of a ring pair, owned by both ports

  explicit Port(std::string name) : name_(std::move(name)) {}
  static absl::StatusOr<std::unique_ptr<Port>> OfRings(const std::string& name,
                                                       std::shared_ptr<Rings> rings, rte_ring* rx,
                                                       rte_ring* tx, rte_mempool* pool);
  absl::Status Probe(const Devargs& devargs);
  absl::Status Configure(const Devargs& devargs, const PortOptions& options);
  absl::Status Start(const Devargs& devargs, uint32_t timeout_ms);
  absl::Status TakePool(const Devargs& devargs, rte_mempool* pool, int socket);
  void LearnMac(const Devargs& devargs, const PortOptions& options);
  // Of the interface of the kernel's; nothing when that is gone.
  std::optional<std::string> InterfaceName() const;
  bool Carries(const rte_mbuf& frame) const;
  uint16_t SendWhatIsCarried(rte_mbuf** frames, uint16_t count);

  static constexpr uint16_t kNoPort = 0xFFFF;
  std::string name_;
  uint16_t port_id_ = kNoPort;
  bool running_ = false;
  std::string interface_;         // of the kernel's (iface=); empty: on none
  bool kernel_link_ = false;      // whose link is this port's: the driver does not look at it
  unsigned interface_index_ = 0;  // as it was at the start
  int interface_fd_ = -1;         // to ask by, whatever else the process has open
  MacAddress mac_{};
  uint16_t mtu_ = 0;
  uint16_t lowered_mtu_ = 0;  // of the interface, below mtu_; 0: it was not lowered
  uint64_t tx_over_mtu_ = 0;
  uint16_t data_room_ = 0;  // of the receive pool, without headroom
  rte_mempool* pool_ = nullptr;
  rte_mempool* own_pool_ = nullptr;
  rte_device* device_ = nullptr;
  std::shared_ptr<Rings> rings_;
};

}  // namespace pollux::net

#endif  // POLLUX_STACK_NET_PORT_H_
