// One DPDK ethdev, opened by its devargs: the wire of one worker or of several.
#ifndef POLLUX_STACK_IO_PORT_PORT_H_
#define POLLUX_STACK_IO_PORT_PORT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/types.h"
#include "stack/io/link/link.h"
#include "stack/io/port/devargs.h"
#include "stack/io/port/kernel_link.h"

struct rte_device;
struct rte_mempool;
struct rte_ring;

namespace pollux::io {

struct PortOptions {
  // "net_tap0,iface=plx0", "net_memif0,role=client,socket=/run/x.sock", "0000:03:00.0". Arguments
  // that a driver needs to carry large frames are added where they are missing (port_driver.h).
  std::string devargs;
  // Where received frames come from, one pool for each queue that is wanted: at least one, and the
  // port has as many queues as its driver allows. Not owned, outlive the open port. The smallest
  // data room bounds what the port can carry. Without them, and where one is null or the driver
  // demands larger buffers, the port makes a pool of its own for all queues.
  std::vector<rte_mempool*> pools;
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

// Opened and closed on a control thread; each of its queues belongs to one worker. Frames longer
// than the buffers of the pool are refused by the drivers at set-up or arrive in several segments,
// which receivers drop (Drop::kScattered).
class Port {
 public:
  // A receive queue and a send queue. On which receive queue a packet arrives is the driver's
  // business (all of a flow on the same, mostly), and see QpnSteering.
  class alignas(64) Queue final : public Link {
   public:
    Queue(Port* port, uint16_t port_id, uint16_t index)
        : port_(port), port_id_(port_id), index_(index) {}
    uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
    uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;
    // As Port::GetLink(), on the core that sends, which from then on drops and counts what the
    // interface of the kernel's no longer carries: the kernel would drop it without a word.
    LinkState FollowLink();

   private:
    friend class Port;
    bool Carries(const rte_mbuf& frame) const;
    uint16_t SendWhatIsCarried(rte_mbuf** frames, uint16_t count);

    Port* port_;
    uint16_t port_id_;
    uint16_t index_;
    uint16_t lowered_mtu_ = 0;  // of the interface, below the port's; 0: it was not lowered
    bool running_ = false;
    std::atomic<uint64_t> tx_over_mtu_{0};  // written by its core alone
  };

  // EAL must be initialised. Blocks for up to start_timeout_ms. Errors say what was asked, what was
  // found and what to do: InvalidArgument (devargs), NotFound (interface, device),
  // PermissionDenied (needs root), AlreadyExists (taken), Unavailable (no memif server, or one that
  // refuses), FailedPrecondition (interface down), ResourceExhausted (buffers), Internal (driver
  // refuses).
  static absl::StatusOr<std::unique_ptr<Port>> Open(const PortOptions& options);

  // Two ports of this process joined by two rings: no root, no hugepages, no NIC, and the frames
  // are passed by pointer, so each side frees what the other allocated. `name` is unique in the
  // process; the pools are those of the workers on either side (not owned), and the smallest data
  // room bounds the MTU of both. There are as many queues as the side with fewer pools has; what
  // is sent on one arrives on the same of the other side.
  using Pair = std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>>;
  static absl::StatusOr<Pair> CreateRingPair(const std::string& name,
                                             const std::vector<rte_mempool*>& pools_a,
                                             const std::vector<rte_mempool*>& pools_b);
  static constexpr unsigned kRingFrames = 1024;  // that lie in each of the rings at most

  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Stops the device and frees every frame that it and its rings hold; nothing is received or sent
  // afterwards. To be called when no worker polls the port any more (of a ring pair: either port)
  // and before a pool goes whose frames may lie in it, the peer's of a ring pair included. A memif
  // driver can crash when its peer goes away while it is polled: end connections (DREQ) on both
  // sides first.
  void Close();

  Queue& queue(uint16_t index = 0) { return *queues_[index]; }
  uint16_t queues() const { return static_cast<uint16_t>(queues_.size()); }

  const std::string& name() const { return name_; }
  uint16_t id() const { return port_id_; }  // as DPDK counts
  const MacAddress& mac() const { return mac_; }
  // What one frame really carries, in bytes from the IP header up (InterfaceConfig::mtu).
  uint16_t mtu() const { return mtu_; }
  // Whether the far side is there, and the speed that driver or kernel give. Makes system calls
  // with some drivers: not for the packet path.
  LinkState GetLink() const;
  PortStatistics Statistics() const;
  // Of the kernel's interface that the port stands on, as it was at the start; 0: on none.
  unsigned interface_index() const { return interface_index_; }
  // Unavailable when the interface of the kernel's that the port stands on is gone, whatever its
  // name is now. Makes a system call: for a control thread, at any time.
  absl::Status CheckInterface() const;

 private:
  struct Rings;  // of a ring pair, owned by both ports

  explicit Port(std::string name) : name_(std::move(name)) {}
  static absl::StatusOr<std::unique_ptr<Port>> OfRings(const std::string& name,
                                                       std::shared_ptr<Rings> rings,
                                                       std::vector<rte_ring*> rx,
                                                       std::vector<rte_ring*> tx,
                                                       const std::vector<rte_mempool*>& pools);
  absl::Status Probe(const Devargs& devargs);
  absl::Status Configure(const Devargs& devargs, const PortOptions& options);
  absl::Status Start(const Devargs& devargs, uint32_t timeout_ms);
  // Returns 0 if the server has accepted the connection or has not answered in time, -ECONNREFUSED
  // if it has refused it, and DPDK's error if none listens.
  int StartMemifClient(const std::string& path, uint32_t timeout_ms);
  absl::Status TakePools(const Devargs& devargs, const PortOptions& options, uint16_t queues,
                         int socket);
  absl::Status SetUpQueues(const Devargs& devargs, int socket);
  void LearnMac(const Devargs& devargs, const PortOptions& options);
  // Of the interface of the kernel's; nothing when that is gone.
  std::optional<std::string> InterfaceName() const;
  uint64_t PacketsDropped() const;

  static constexpr uint16_t kNoPort = 0xFFFF;
  std::string name_;
  uint16_t port_id_ = kNoPort;
  bool running_ = false;
  std::string interface_;         // of the kernel's (iface=); empty: on none
  bool kernel_link_ = false;      // whose link is this port's: the driver does not look at it
  unsigned interface_index_ = 0;  // as it was at the start
  int interface_fd_ = -1;         // to ask by, whatever else the process has open
  // Of the driver, which does not count what the kernel drops there. The kernel counts anew after
  // each answer.
  std::vector<int> packet_sockets_;
  mutable std::atomic<uint64_t> packets_dropped_{0};
  MacAddress mac_{};
  uint16_t mtu_ = 0;
  uint16_t data_room_ = 0;           // the smallest of the receive pools, without headroom
  std::vector<rte_mempool*> pools_;  // one for each queue
  rte_mempool* own_pool_ = nullptr;
  std::vector<std::unique_ptr<Queue>> queues_;
  rte_device* device_ = nullptr;
  std::shared_ptr<Rings> rings_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_PORT_H_
