// One DPDK ethdev, opened by its devargs and used by one worker or several.
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
#include "stack/base/qpn_layout.h"
#include "stack/base/types.h"
#include "stack/io/link/link.h"
#include "stack/io/port/devargs.h"
#include "stack/io/port/kernel_link.h"
#include "stack/io/port/removal_watch.h"

struct rte_device;
struct rte_mempool;
struct rte_ring;

namespace pollux::io {

struct DataRoom;

struct PortOptions {
  // "net_tap0,iface=plx0", "net_memif0,role=client,socket=/run/x.sock", "0000:03:00.0". Arguments
  // that a driver needs to carry large frames are added if they are missing (port_driver.h).
  std::string devargs;
  // One pool per requested receive queue, at least one; the port has as many of these queues as its
  // driver allows. Not owned; must outlive the open port. The smallest data room limits the frames
  // that the port can carry. If the list is empty, a pool is null, or the driver needs other buffer
  // sizes, the port creates one pool of its own for all queues.
  std::vector<rte_mempool*> pools;
  // Replaces the device's own address.
  std::optional<MacAddress> mac;
  // The MTU of the network, which limits the port's; of a PCI NIC it is set. 0: the port's own.
  uint16_t mtu = 0;
  // Whether the device is to receive frames to other addresses than its own, which a replaced one
  // needs. A kernel's interface is promiscuous as long as the port is open; its flags do not
  // change.
  bool promiscuous = true;
  // How long a memif client waits for its server.
  uint32_t start_timeout_ms = 5000;
};

// The device's counters; zero if its driver does not count them.
struct PortStatistics {
  uint64_t rx_frames, tx_frames, rx_bytes, tx_bytes;
  uint64_t rx_missed;     // the ring was full
  uint64_t rx_no_buffer;  // the pool was empty
  uint64_t rx_errors, tx_errors;
  uint64_t tx_over_mtu;  // frames dropped since they exceed a lowered MTU of the interface
};

// Opened and closed on a control thread; each of its queues belongs to one worker. Frames longer
// than the buffers of the pool are refused by the drivers at setup or arrive in several segments,
// which receivers drop (Drop::kScattered).
class Port {
 public:
  // A receive queue and a send queue. The driver chooses the receive queue on which a packet
  // arrives (usually the same one for all packets of a flow); see also SortsByQpn().
  class alignas(64) Queue final : public Link {
   public:
    Queue(Port* port, uint16_t port_id, uint16_t index)
        : port_(port), port_id_(port_id), index_(index) {}
    uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
    uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;
    // As Port::GetLink(), on the core that sends. From then on Send() drops and counts the frames
    // that exceed a lowered MTU of the interface. The kernel would drop them silently.
    LinkState FollowLink();

   private:
    friend class Port;
    // kGuarded: with a DriverUse for each call of the driver.
    enum class State : uint8_t { kStopped, kRunning, kGuarded };
    uint16_t ReceiveWithCallbacks(rte_mbuf** frames, uint16_t capacity);
    uint16_t SendWithCallbacks(rte_mbuf** frames, uint16_t count);
    uint16_t ReceiveOtherwise(rte_mbuf** frames, uint16_t capacity);
    uint16_t SendOtherwise(rte_mbuf** frames, uint16_t count);
    bool Carries(const rte_mbuf& frame) const;
    uint16_t SendWhatIsCarried(rte_mbuf** frames, uint16_t count);

    Port* port_;
    uint16_t port_id_;
    uint16_t index_;
    uint16_t lowered_mtu_ = 0;  // the interface's, if it is below the port's; otherwise 0
    State state_ = State::kStopped;
    std::atomic<uint64_t> tx_over_mtu_{0};  // written only by its core
  };

  // EAL must be initialised. Blocks for up to start_timeout_ms. Error messages name the request,
  // the cause and the remedy. The codes are InvalidArgument (devargs), NotFound (interface,
  // device), PermissionDenied (needs root), AlreadyExists (in use), Unavailable (no memif server,
  // or it refuses), FailedPrecondition (interface down), ResourceExhausted (buffers), Internal
  // (driver refuses).
  static absl::StatusOr<std::unique_ptr<Port>> Open(const PortOptions& options);

  // Two ports of this process connected by rings. They need no root, hugepages or NIC. Frames are
  // passed by pointer, so each side frees what the other allocated. `name` must be unique in the
  // process. The pools belong to the workers of each side (not owned); the smallest data room
  // limits the MTU of both. There are as many queues as the shorter list has pools. A frame
  // that is sent on a queue arrives on the same queue of the other side.
  using Pair = std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>>;
  static absl::StatusOr<Pair> CreateRingPair(const std::string& name,
                                             const std::vector<rte_mempool*>& pools_a,
                                             const std::vector<rte_mempool*>& pools_b);
  static constexpr unsigned kRingFrames = 1024;  // the size of each ring

  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Stops the device and frees every frame that it and its rings hold; nothing is received or sent
  // afterwards. Call it when no worker polls the port any more (for a ring pair: neither port), and
  // before any pool is destroyed whose frames the port may hold; for a ring pair this includes the
  // peer's pools. A memif driver can crash if its peer leaves while it is polled: first end the
  // connections of both sides (DREQ).
  void Close();

  Queue& queue(uint16_t index = 0) { return *queues_[index]; }
  uint16_t queues() const { return static_cast<uint16_t>(queues_.size()); }
  // Whether the NIC has taken RssKey() and RssTable(), so that packets of Pollux's peers arrive at
  // the queue of the worker that they are for.
  bool SortsByQpn() const { return sorts_by_qpn_; }

  const std::string& name() const { return name_; }
  uint16_t id() const { return port_id_; }  // DPDK's port number
  const MacAddress& mac() const { return mac_; }
  // What one frame really carries, in bytes from the IP header on (InterfaceConfig::mtu).
  uint16_t mtu() const { return mtu_; }
  // Whether the link is up, and the speed that the driver or the kernel reports. Makes system calls
  // with some drivers, so it is not for the packet path.
  LinkState GetLink() const;
  PortStatistics Statistics() const;
  // Makes the kernel drop what is not RoCE for a queue pair of `layout` (RocePacketFilter()), on a
  // port over packet sockets. Internal if the kernel refuses.
  absl::Status FilterPackets(const QpnLayout& layout);
  // Returns the index that the kernel gave, at the start, to the interface on which the port was
  // opened; 0 if the port has no interface in the kernel.
  unsigned interface_index() const { return interface_index_; }
  // Returns Unavailable if the PCI device is being unplugged, or if the kernel's interface on which
  // the port was opened no longer exists; renaming it has no effect on this. Makes a system call:
  // for a control thread, at any time.
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
  void Adopt(uint16_t id);
  absl::Status Configure(const Devargs& devargs, const PortOptions& options,
                         const DataRoom& allowed);
  void Stop();
  bool Scatters() const;
  absl::Status Start(const Devargs& devargs, uint32_t timeout_ms);
  // Returns 0 if the server has accepted the connection or has not answered in time, -ECONNREFUSED
  // if it has refused it, and DPDK's error if none listens.
  int StartMemifClient(const std::string& path, uint32_t timeout_ms);
  absl::Status TakePools(const Devargs& devargs, const PortOptions& options,
                         const DataRoom& allowed, uint16_t queues, int socket);
  absl::Status SetUpQueues(const Devargs& devargs, int socket);
  void ReceiveAllAddresses(const Devargs& devargs);
  void LearnMac(const Devargs& devargs, const PortOptions& options);
  // The current name of the kernel's interface; nothing if the interface no longer exists.
  std::optional<std::string> InterfaceName() const;
  uint64_t PacketsDropped() const;

  static constexpr uint16_t kNoPort = 0xFFFF;
  std::string name_;
  uint16_t port_id_ = kNoPort;
  bool running_ = false;
  std::string interface_;         // the kernel's interface (iface=), or empty
  bool kernel_link_ = false;      // the link is that interface's: the driver does not check it
  unsigned interface_index_ = 0;  // as of the start
  int interface_fd_ = -1;         // a socket for queries about the interface
  int promiscuous_fd_ = -1;       // a socket that keeps the interface promiscuous
  // The driver's packet sockets. The driver does not count what the kernel drops there; the kernel
  // does, and restarts its count after each query.
  std::vector<int> packet_sockets_;
  mutable std::atomic<uint64_t> packets_dropped_{0};
  MacAddress mac_{};
  uint16_t mtu_ = 0;
  uint16_t data_room_ = 0;           // the smallest of the receive pools', without headroom
  std::vector<rte_mempool*> pools_;  // one per queue
  std::vector<rte_mempool*> own_pools_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<uint8_t> rss_key_;  // drivers read it when they start
  uint16_t rss_table_size_ = 0;   // in entries; 0: the NIC does not take RssKey()
  bool sorts_by_qpn_ = false;
  rte_device* device_ = nullptr;
  std::unique_ptr<RemovalWatch> removal_;  // null: no PCI device
  std::shared_ptr<Rings> rings_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_PORT_H_
