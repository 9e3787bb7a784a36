// A device: an open port, the workers that share it, and their network interfaces. A program opens
// its device first.
#ifndef POLLUX_STACK_ENGINE_DEVICE_H_
#define POLLUX_STACK_ENGINE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/stats.h"
#include "stack/base/types.h"
#include "stack/engine/loop/poller.h"
#include "stack/engine/loop/worker.h"
#include "stack/io/capture/capture.h"
#include "stack/io/capture/capture_file.h"
#include "stack/io/link/impairment.h"
#include "stack/io/link/loopback.h"
#include "stack/io/port/port.h"
#include "stack/io/steering/rx_destination.h"
#include "stack/io/steering/steering.h"
#include "stack/io/steering/steering_rings.h"
#include "stack/ip/interface.h"
#include "stack/kernel/exception_path.h"
#include "stack/kernel/interface_claims.h"
#include "stack/kernel/kernel_interface.h"
#include "stack/kernel/kernel_tap.h"
#include "stack/kernel/tap_forwarder.h"
#include "stack/transport/congestion/dcqcn_parameters.h"

namespace pollux::engine {

struct DeviceOptions {
  // An interface that stays with the kernel (kernel::KernelInterface). The device uses its MAC
  // address, addresses, routes and neighbours, and takes only UDP port 4791 of its packets.
  // Must not be combined with `port`, `mac`, `addresses` or `gateways`. Other processes may use the
  // interface too (kernel::InterfaceClaims). Packets pass its queueing discipline (tc) only if an
  // administrator had set one when the device was opened.
  std::string netdev;
  // The name of a tap to create in the kernel, with the MAC address, addresses and gateways of the
  // port. All packets that are not RoCE pass between the port and the kernel, and the kernel
  // resolves neighbours. Empty: no tap; the port answers ARP, neighbour discovery and ping itself.
  std::string kernel_path;
  // Whether RoCE packets pass between the port and that tap too, so that programs can share it as
  // their `netdev`. The device's worker then receives and answers nothing. Needs a kernel path and
  // exactly one worker.
  bool forwards_all = false;
  // Starts the thread of the kernel path; null: std::thread does.
  kernel::ExceptionPath::StartThread start_thread = nullptr;
  // DPDK devargs; see io::PortOptions. Ignored by OpenPair().
  std::string port;
  std::optional<MacAddress> mac;  // replaces the port's own MAC address
  uint16_t mtu = 0;               // as io::PortOptions::mtu
  // See ip::InterfaceConfig. The link-local addresses that follow from the MAC address are added.
  std::vector<InterfaceAddress> addresses;
  std::vector<Gid> gateways;
  io::ImpairmentOptions impairment;
  // Congestion control; off when empty. A maximum rate of 0 stands for the link speed of the port.
  std::optional<transport::DcqcnParameters> dcqcn;
  // Records every frame on the wire; null: no capture. Several devices may share one. Open it
  // with &DeviceEpochNs. Its last owner closes it, after the devices are destroyed.
  std::shared_ptr<io::CaptureFile> capture;
  uint32_t start_timeout_ms = 5000;  // how long a memif client waits for its server
  // Workers that share the port, one per core: 1 to kMaxWorkers. Each has its own queue pairs,
  // timers and packet pool, and its own queue of the port if the port has enough queues. Workers
  // without a queue receive and send through rings.
  static constexpr uint32_t kMaxWorkers = 1u << QpnLayout{}.worker_bits;
  uint32_t workers = 1;
  // The most queue pairs of each worker. With a netdev, its processes divide the queue pair numbers
  // among themselves, and this is what the process asks for.
  uint32_t queue_pairs = WorkerConfig().max_queue_pairs;
  // Chooses the worker for packets to queue pair 1. Null: worker 0 gets all of them.
  io::GsiOwner gsi_owner = nullptr;
};

// The current offset from a device's times to nanoseconds since 1970. It changes, because DPDK
// knows the rate of the time-stamp counter only to a quarter of a percent, and the system's clock
// is adjusted. It is too small if the thread is interrupted between reading that clock and the
// counter.
uint64_t DeviceEpochNs();

// Create and destroy a device on a control thread, since both may block. In between, exactly one
// thread polls each worker. InitEal() must have succeeded.
//
// Workers share nothing: each has its own tables, its own interface with the same addresses, and
// its own range of queue pair numbers (QpnLayout). Only worker 0 answers ARP, neighbour
// solicitations and ping, and only worker 0 has the kernel path. If the port sorts frames by queue
// pair number (io::Port::SortsByQpn()), they arrive at their owner; otherwise the worker that
// received them passes them on through rings (Steering). A device with one worker has no steering.
class Device {
 public:
  // Returns the errors of io::Port::Open(); InvalidArgument for options that contradict each other
  // or exceed their limits; FailedPrecondition if the interface has no address or too small an MTU.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const DeviceOptions& options);
  // Opens two devices of this process that are connected by a net_ring pair.
  using Pair = std::pair<std::unique_ptr<Device>, std::unique_ptr<Device>>;
  static absl::StatusOr<Pair> OpenPair(const DeviceOptions& a, const DeviceOptions& b);

  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Returns every frame to its pool. Call it after the last poll; for a pair, on both devices
  // before either is destroyed, since each may hold frames of the other's pool. The destructor
  // calls it if it was not called.
  void Close();

  Worker& worker(uint32_t index = 0) { return *worker_ports_[index]->worker; }
  uint32_t workers() const { return static_cast<uint32_t>(worker_ports_.size()); }
  io::Port& port() { return *port_; }
  // Returns Unavailable if the port's interface or device or the kernel path's tap no longer exists
  // (io::Port::CheckInterface()). For a control thread, at any time.
  absl::Status CheckInterface() const;
  // What this process has of the interface that it shares with others; null without a netdev.
  kernel::InterfaceClaims* claims() { return claims_.get(); }
  // The interface of a worker. Only for that worker's core.
  const ip::Interface& interface(uint32_t worker = 0) const {
    return *worker_ports_[worker]->interface;
  }
  // Null if the port is not impaired or the worker has no queue of its own.
  const io::Impairment* impairment(uint32_t worker = 0) const {
    const auto& impairment = worker_ports_[worker]->impairment;
    return impairment ? &*impairment : nullptr;
  }
  // Null on a device with one worker.
  const io::Steering* steering(uint32_t worker = 0) const {
    const auto& steering = worker_ports_[worker]->steering;
    return steering ? &*steering : nullptr;
  }
  // The first of `addresses`, and its index in the GID table. For a netdev: the interface's first
  // address, which is link-local only if there is no other.
  Gid gid() const;
  uint8_t gid_index() const { return interface().GidIndex(gid()).value_or(0); }
  // Reads the GID table, as ibv_query_gid_ex does. Returns InvalidArgument past its end and for an
  // empty entry. Reads worker 0's table; all workers' tables are equal.
  absl::StatusOr<ibv_gid_entry> QueryGidEx(uint32_t index) const {
    return interface().QueryGidEx(index);
  }
  // Join and leave a multicast group, whose packets then reach every worker. Only for the core of
  // worker 0. Other workers may join through their own interfaces: each reports its groups. Errors:
  // see ip::Interface.
  absl::Status JoinMulticast(const Gid& group, uint16_t vlan = kNoVlan);
  absl::Status LeaveMulticast(const Gid& group, uint16_t vlan = kNoVlan);

 private:
  // Everything that belongs to one worker, from the port upwards. Aligned, so that no two cores
  // write to one cache line.
  struct alignas(64) WorkerPort final : StatsProvider, Poller {
    WorkerPort(Device* owner, uint32_t number) : device(owner), index(number) {}
    bool Collect(const StatsQuery& query, Stats* stats) override;
    // Only with `forwarder`: makes the worker's turn count as one with work.
    bool Poll(uint64_t /*now_ns*/) override { return forwarder->moved(); }

    Device* device;
    uint32_t index;
    std::unique_ptr<kernel::KernelInterface> kernel;  // for a netdev or a kernel path
    std::optional<ip::Interface> interface;
    std::optional<io::Loopback> loopback;
    std::optional<io::Capture> capture;
    std::optional<io::Impairment> impairment;
    std::optional<io::Steering> steering;
    std::unique_ptr<kernel::ExceptionPath> exception_path;
    std::optional<kernel::TapForwarder> forwarder;  // instead of the exception path
    std::unique_ptr<Worker> worker;
  };

  explicit Device(const DeviceOptions& options) : options_(options) {}
  // Without a port.
  static absl::StatusOr<std::unique_ptr<Device>> WithWorkers(const DeviceOptions& options);
  absl::Status ClaimNumbers();
  std::vector<rte_mempool*> PacketPools() const;
  absl::Status Attach(std::unique_ptr<io::Port> port);
  absl::Status OpenKernelInterface(WorkerPort& port, const std::string& name);
  // Opens the port to the processes that share the netdev, over the kernel's interface lo.
  void OpenLocalPort();
  absl::Status MakeInterfaces(ip::InterfaceConfig config);
  absl::Status MakeSteering();
  absl::Status BuildLinkChain(WorkerPort& port);
  void CollectPort(Stats* stats) const;

  DeviceOptions options_;
  std::unique_ptr<kernel::InterfaceClaims> claims_;  // for a netdev
  std::unique_ptr<kernel::KernelTap> tap_;           // for a kernel path
  // Port and rings may hold frames of the workers' pools, so both must be destroyed before the
  // pools: members are destroyed from the last to the first.
  std::vector<std::unique_ptr<WorkerPort>> worker_ports_;
  std::unique_ptr<io::SteeringRings> rings_;
  std::unique_ptr<io::Port> port_;
  std::unique_ptr<io::Port> local_port_;  // null: lo is down, or there is no netdev
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_DEVICE_H_
