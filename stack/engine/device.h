// A port opened for use: the workers that share it and the interface that it is on its network.
// What a program opens first.
#ifndef POLLUX_STACK_ENGINE_DEVICE_H_
#define POLLUX_STACK_ENGINE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/stats.h"
#include "stack/base/types.h"
#include "stack/engine/loop/worker.h"
#include "stack/io/capture/capture.h"
#include "stack/io/capture/capture_file.h"
#include "stack/io/link/impairment.h"
#include "stack/io/link/loopback.h"
#include "stack/io/port/port.h"
#include "stack/io/steering/qpn_steering.h"
#include "stack/io/steering/rx_destination.h"
#include "stack/io/steering/steering.h"
#include "stack/io/steering/steering_rings.h"
#include "stack/ip/interface.h"
#include "stack/kernel/exception_path.h"
#include "stack/kernel/kernel_interface.h"
#include "stack/kernel/kernel_tap.h"
#include "stack/transport/congestion/dcqcn_parameters.h"

namespace pollux::engine {

struct DeviceOptions {
  // An interface that the kernel keeps (net::KernelInterface), shared with it: its MAC, addresses,
  // routes and neighbours are used, and of its packets UDP 4791 alone. Instead of `port`, `mac`,
  // `addresses` and `gateways`.
  std::string netdev;
  // The name of a tap to make in the kernel, with the MAC, addresses and gateways of the port: all
  // that is not RoCE goes to the kernel and comes from it, which resolves neighbours too. Empty:
  // none; the port answers ARP, neighbour discovery and ping itself.
  std::string kernel_path;
  // DPDK devargs; see net::PortOptions. Ignored by OpenPair.
  std::string port;
  std::optional<MacAddress> mac;  // instead of the port's own
  // As net::InterfaceConfig's. The link-local addresses that follow from the MAC come on top.
  std::vector<InterfaceAddress> addresses;
  std::vector<Gid> gateways;
  io::ImpairmentOptions impairment;
  // Congestion control, off when empty. A maximum rate of 0 becomes the speed of the port's link.
  std::optional<transport::DcqcnParameters> dcqcn;
  // Where every frame on the wire is written down; null: nowhere. Devices may share one. Open with
  // DeviceEpochNs(); closed by who holds it last, after the device.
  std::shared_ptr<io::CaptureFile> capture;
  uint32_t start_timeout_ms = 5000;  // for a memif client to find its server
  // Cores that share the port, each with queue pairs, timers and packet pool of its own: 1 to
  // kMaxWorkers. Each has a queue of the port where there are as many; the others live by rings.
  static constexpr uint32_t kMaxWorkers = 1u << io::QpnLayout{}.worker_bits;
  uint32_t workers = 1;
  // Makes what has a port of several queues, known to DPDK by that number, sort packets. Null:
  // net::FlowQpnSteering.
  std::function<std::unique_ptr<io::QpnSteering>(uint16_t port_id)> qpn_steering;
  // Which worker gets what comes to queue pair 1; null: worker 0 all of it.
  io::GsiOwner gsi_owner = nullptr;
};

// What to add to a device's times to get nanoseconds since 1970, as of now.
uint64_t DeviceEpochNs();

// Made and destroyed on a control thread; in between each worker is polled by one thread. EAL must
// be initialised.
//
// Workers share nothing: each has its own tables, its own interface with the same addresses, and
// its own numbers (QpnLayout). Worker 0 alone answers ARP, neighbour solicitations and ping, and
// has the kernel path. Frames reach their owner by the port where it sorts them (net::QpnSteering),
// else by rings from the worker that received them (Steering). A device of one worker has none of
// that.
class Device {
 public:
  // Errors are net::Port::Open's, or say which option does not fit.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const DeviceOptions& options);
  // Two devices of this process, joined by the embedded wire (a net_ring pair).
  using Pair = std::pair<std::unique_ptr<Device>, std::unique_ptr<Device>>;
  static absl::StatusOr<Pair> OpenPair(const DeviceOptions& a, const DeviceOptions& b);

  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Hands back every frame. After the last poll, and for a pair on both before either is destroyed:
  // each may hold frames of the other's pool. Done by the destructor otherwise.
  void Close();

  Worker& worker(uint32_t index = 0) { return *worker_ports_[index]->worker; }
  uint32_t workers() const { return static_cast<uint32_t>(worker_ports_.size()); }
  io::Port& port() { return *port_; }
  // Of a worker, on its core.
  const ip::Interface& interface(uint32_t worker = 0) const {
    return *worker_ports_[worker]->interface;
  }
  // Null when the port is not impaired, and for a worker without a queue of it.
  const io::Impairment* impairment(uint32_t worker = 0) const {
    const auto& impairment = worker_ports_[worker]->impairment;
    return impairment ? &*impairment : nullptr;
  }
  // Null with one worker.
  const io::Steering* steering(uint32_t worker = 0) const {
    const auto& steering = worker_ports_[worker]->steering;
    return steering ? &*steering : nullptr;
  }
  // The first of the addresses asked for (of a netdev: that it has; the link-local one when there
  // is no other), and its place in the GID table.
  Gid gid() const;
  uint8_t gid_index() const { return interface().GidIndex(gid()).value_or(0); }
  // The GID table, as ibv_query_gid_ex reads it; past the end and for an empty place
  // InvalidArgument. Of worker 0, as all of its interface; every worker's is the same.
  absl::StatusOr<ibv_gid_entry> QueryGidEx(uint32_t index) const {
    return interface().QueryGidEx(index);
  }
  // Joins and leaves a multicast group, whose packets then reach every worker; on the core of
  // worker 0. Others may join by their own interfaces: each reports its groups. See net::Interface.
  absl::Status JoinMulticast(const Gid& group, uint16_t vlan = kNoVlan);
  absl::Status LeaveMulticast(const Gid& group, uint16_t vlan = kNoVlan);

 private:
  // What one worker has, from the port up. In one piece, so that no two cores write to one cache
  // line.
  struct alignas(64) WorkerPort final : StatsProvider {
    WorkerPort(Device* owner, uint32_t number) : device(owner), index(number) {}
    bool Collect(const StatsQuery& query, Stats* stats) override;

    Device* device;
    uint32_t index;
    std::unique_ptr<kernel::KernelInterface> kernel;  // of a netdev or a kernel path
    std::optional<ip::Interface> interface;
    std::optional<io::Loopback> loopback;
    std::optional<io::Capture> capture;
    std::optional<io::Impairment> impairment;
    std::optional<io::Steering> steering;
    std::unique_ptr<kernel::ExceptionPath> kernel_path;
    std::unique_ptr<Worker> worker;
  };

  explicit Device(const DeviceOptions& options) : options_(options) {}
  static absl::StatusOr<std::unique_ptr<Device>> WithWorkers(const DeviceOptions& options);
  std::vector<rte_mempool*> PacketPools() const;
  absl::Status Attach(std::unique_ptr<io::Port> port);
  absl::Status OpenKernelSide(WorkerPort& port, const std::string& name);
  absl::Status MakeInterfaces(ip::InterfaceConfig config);
  absl::Status MakeSteering();
  absl::Status BuildLinkChain(WorkerPort& port);
  void CollectPort(Stats* stats) const;

  DeviceOptions options_;
  std::unique_ptr<kernel::KernelTap> tap_;  // of a kernel path
  // Frames of the workers' pools may lie in port and rings: both go first.
  std::vector<std::unique_ptr<WorkerPort>> worker_ports_;
  std::unique_ptr<io::SteeringRings> rings_;
  std::unique_ptr<io::Port> port_;
  std::unique_ptr<io::QpnSteering> hardware_;  // null: the port does not sort
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_DEVICE_H_
