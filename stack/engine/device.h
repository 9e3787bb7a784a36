// A port opened for use: the worker that polls it and the interface that it is on its network. What
// a program opens first.
#ifndef POLLUX_STACK_ENGINE_DEVICE_H_
#define POLLUX_STACK_ENGINE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/base/types.h"
#include "stack/engine/report.h"
#include "stack/engine/telemetry.h"
#include "stack/engine/worker.h"
#include "stack/net/capture.h"
#include "stack/net/capture_file.h"
#include "stack/net/impairment.h"
#include "stack/net/interface.h"
#include "stack/net/kernel_interface.h"
#include "stack/net/kernel_path.h"
#include "stack/net/kernel_tap.h"
#include "stack/net/loopback.h"
#include "stack/net/port.h"
#include "stack/transport/dcqcn_parameters.h"

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
  std::vector<net::InterfaceAddress> addresses;
  std::vector<Gid> gateways;
  net::ImpairmentOptions impairment;
  // Congestion control, off when empty. A maximum rate of 0 becomes the speed of the port's link.
  std::optional<transport::DcqcnParameters> dcqcn;
  // Where every frame on the wire is written down; null: nowhere. Devices may share one. Open with
  // DeviceEpochNs(); closed by who holds it last, after the device.
  std::shared_ptr<net::CaptureFile> capture;
  uint32_t start_timeout_ms = 5000;  // for a memif client to find its server
};

// What to add to a device's times to get nanoseconds since 1970, as of now.
uint64_t DeviceEpochNs();

// Made and destroyed on a control thread; polled by one thread in between. EAL must be initialised.
class Device : private Reporter {
 public:
  // Errors are net::Port::Open's, or say which option does not fit.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const DeviceOptions& options);
  // Two devices of this process, joined by the embedded wire (a net_ring pair).
  using Pair = std::pair<std::unique_ptr<Device>, std::unique_ptr<Device>>;
  static absl::StatusOr<Pair> OpenPair(const DeviceOptions& a, const DeviceOptions& b);

  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Hands back every frame. After the last poll, and for a pair on both before either is destroyed:
  // each may hold frames of the other's pool. Done by the destructor otherwise.
  void Close();

  Worker& worker() { return *worker_; }
  net::Port& port() { return *port_; }
  const net::Interface& interface() const { return *interface_; }
  // Null when the port is not impaired.
  const net::Impairment* impairment() const { return impairment_.get(); }
  // The first of the addresses asked for (of a netdev: that it has; the link-local one when there
  // is no other), and its place in the GID table.
  Gid gid() const;
  uint8_t gid_index() const { return interface_->GidIndex(gid()).value_or(0); }
  // The GID table, as ibv_query_gid_ex reads it; past the end and for an empty place
  // InvalidArgument. Of the port's worker, as all of its interface.
  absl::StatusOr<ibv_gid_entry> QueryGidEx(uint32_t index) const {
    return interface_->QueryGidEx(index);
  }
  // Joins and leaves a multicast group; on the worker's core. See net::Interface.
  absl::Status JoinMulticast(const Gid& group, uint16_t vlan = net::kNoVlan);
  absl::Status LeaveMulticast(const Gid& group, uint16_t vlan = net::kNoVlan);

 private:
  explicit Device(const DeviceOptions& options) : options_(options) {}
  absl::Status MakeWorker();
  absl::Status Attach(std::unique_ptr<net::Port> port);
  bool Tell(const Question& question, Report* report) override;

  DeviceOptions options_;
  std::unique_ptr<net::KernelTap> tap_;           // of a kernel path
  std::unique_ptr<net::KernelInterface> kernel_;  // of a netdev or a kernel path
  // Frames of the worker's pool may lie in the port: the port goes first.
  std::unique_ptr<net::Interface> interface_;
  std::unique_ptr<net::Port> port_;
  std::unique_ptr<net::Loopback> loopback_;
  std::unique_ptr<net::Capture> capture_;
  std::unique_ptr<net::Impairment> impairment_;
  std::unique_ptr<net::KernelPath> kernel_path_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Published> published_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_DEVICE_H_
