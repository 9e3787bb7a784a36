#include "stack/engine/device.h"

#include <atomic>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/engine/clock.h"

namespace pollux::engine {

uint64_t DeviceEpochNs() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count()) -
         Clock().NowNs();
}

absl::Status Device::MakeWorker() {
  WorkerConfig config;
  config.seed = Random::SystemSeed();
  config.start_ns = Clock().NowNs();
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Create(config);
  if (!worker.ok()) return worker.status();
  worker_ = *std::move(worker);
  return absl::OkStatus();
}

absl::Status Device::Attach(std::unique_ptr<net::Port> port) {
  port_ = std::move(port);
  net::InterfaceConfig config;
  config.mac = options_.mac.value_or(port_->mac());
  config.addresses = options_.addresses;
  config.gateways = options_.gateways;
  config.link_local = true;
  config.mtu = port_->mtu();
  if (absl::Status status = net::CheckConfig(config); !status.ok()) return status;
  if (!options_.kernel_path.empty()) {
    auto tap = net::KernelTap::Make(options_.kernel_path, config);
    if (!tap.ok()) return tap.status();
    tap_ = *std::move(tap);
    auto kernel = net::KernelInterface::Open(options_.kernel_path);
    if (!kernel.ok()) return kernel.status();
    kernel_ = *std::move(kernel);
  }
  interface_ = std::make_unique<net::Interface>(config, kernel_.get());
  if (interface_->gid_table_size() == 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("interface \"%s\" has no address; `ip addr add ADDR/LEN dev %s`",
                        options_.netdev, options_.netdev));
  }
  if (!net::PathMtu(config.mtu).ok()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "port %s carries %u bytes a packet; RoCE needs at least 352", port_->name(), config.mtu));
  }
  loopback_ = std::make_unique<net::Loopback>(port_.get(), &interface_->config().mac,
                                              worker_->packet_pool());
  transport::Link* link = loopback_.get();
  if (options_.capture != nullptr) {
    capture_ = std::make_unique<net::Capture>(
        link, options_.capture->AddInterface(port_->name(), config.mac));
    link = capture_.get();
  }
  if (options_.impairment.Any()) {
    impairment_ =
        std::make_unique<net::Impairment>(link, options_.impairment, worker_->packet_pool());
    link = impairment_.get();
  }
  if (tap_ != nullptr) {
    // A VLAN tag more than the IP packet needs: the kernel's VLAN devices may stand on the tap.
    constexpr uint16_t kEthernetAndTag = 18;
    auto path = net::KernelPath::Start(link, tap_->fd(),
                                       static_cast<uint16_t>(config.mtu + kEthernetAndTag));
    if (!path.ok()) return path.status();
    kernel_path_ = *std::move(path);
    link = kernel_path_.get();
  }
  worker_->AddPort(interface_.get(), link, port_->name());
  worker_->WatchLink([port = port_.get()] { return port->FollowLink(); });
  worker_->AddReporter(this);
  published_ = std::make_unique<Published>(worker_.get());
  if (options_.dcqcn) {
    transport::DcqcnParameters parameters = *options_.dcqcn;
    if (parameters.rpg_max_rate == 0) parameters.rpg_max_rate = port_->GetLink().speed_mbps;
    worker_->EnableDcqcn(parameters);
  }
  return absl::OkStatus();
}

bool Device::Tell(const Question& question, Report* report) {
  if (question.topic != "port" || question.object.value_or(1) != 1) return false;
  const net::PortStatistics statistics = port_->Statistics();
  report->Set("device/rx_frames", statistics.rx_frames);
  report->Set("device/tx_frames", statistics.tx_frames);
  report->Set("device/rx_bytes", statistics.rx_bytes);
  report->Set("device/tx_bytes", statistics.tx_bytes);
  report->Set("device/rx_missed", statistics.rx_missed);
  report->Set("device/rx_no_buffer", statistics.rx_no_buffer);
  report->Set("device/rx_errors", statistics.rx_errors);
  report->Set("device/tx_errors", statistics.tx_errors);
  report->Set("device/tx_over_mtu", statistics.tx_over_mtu);
  report->Set("loopback/passed", loopback_->counters().passed);
  report->Set("loopback/no_buffer", loopback_->counters().no_buffer);
  if (impairment_ == nullptr) return true;
  for (const auto& [way, counters] : {std::pair("sent", &impairment_->send_counters()),
                                      std::pair("received", &impairment_->receive_counters())}) {
    const std::string prefix = absl::StrCat("impaired/", way, "/");
    report->Set(absl::StrCat(prefix, "passed"), counters->passed);
    report->Set(absl::StrCat(prefix, "lost"), counters->lost);
    report->Set(absl::StrCat(prefix, "duplicated"), counters->duplicated);
    report->Set(absl::StrCat(prefix, "reordered"), counters->reordered);
    report->Set(absl::StrCat(prefix, "corrupted"), counters->corrupted);
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const DeviceOptions& options) {
  std::unique_ptr<Device> device(new Device(options));
  if (absl::Status status = device->MakeWorker(); !status.ok()) return status;
  net::PortOptions port;
  port.devargs = options.port;
  if (!options.netdev.empty()) {
    auto kernel = net::KernelInterface::Open(options.netdev);
    if (!kernel.ok()) return kernel.status();
    device->kernel_ = *std::move(kernel);
    static std::atomic<unsigned> count{0};
    port.devargs = absl::StrFormat("net_af_packet%u,iface=%s", count++, options.netdev);
  }
  port.pool = device->worker_->packet_pool();
  port.mac = options.mac;
  port.start_timeout_ms = options.start_timeout_ms;
  absl::StatusOr<std::unique_ptr<net::Port>> opened = net::Port::Open(port);
  if (!opened.ok()) return opened.status();
  if (absl::Status status = device->Attach(*std::move(opened)); !status.ok()) return status;
  return device;
}

absl::StatusOr<Device::Pair> Device::OpenPair(const DeviceOptions& a, const DeviceOptions& b) {
  static std::atomic<unsigned> count{0};
  Pair pair(new Device(a), new Device(b));
  for (Device* device : {pair.first.get(), pair.second.get()}) {
    if (absl::Status status = device->MakeWorker(); !status.ok()) return status;
  }
  absl::StatusOr<net::Port::Pair> ports = net::Port::CreateRingPair(
      absl::StrFormat("pair%u", count++), pair.first->worker_->packet_pool(),
      pair.second->worker_->packet_pool());
  if (!ports.ok()) return ports.status();
  if (absl::Status status = pair.first->Attach(std::move(ports->first)); !status.ok()) {
    return status;
  }
  if (absl::Status status = pair.second->Attach(std::move(ports->second)); !status.ok()) {
    return status;
  }
  return pair;
}

Device::~Device() { Close(); }

Gid Device::gid() const {
  if (!options_.addresses.empty()) return options_.addresses[0].address;
  for (uint32_t i = 0; i < interface_->gid_table_size(); ++i) {
    const absl::StatusOr<Gid> gid = interface_->QueryGid(static_cast<int>(i));
    if (gid.ok() && !gid->IsLinkLocal()) return *gid;
  }
  return interface_->QueryGid(0).value_or(Gid{});
}

absl::Status Device::JoinMulticast(const Gid& group, uint16_t vlan) {
  transport::PollContext context = worker_->poll_context();
  return interface_->JoinMulticast(group, context, vlan);
}

absl::Status Device::LeaveMulticast(const Gid& group, uint16_t vlan) {
  transport::PollContext context = worker_->poll_context();
  return interface_->LeaveMulticast(group, context, vlan);
}

void Device::Close() {
  if (interface_ != nullptr) interface_->Clear();
  if (kernel_path_ != nullptr) kernel_path_->Stop();
  if (impairment_ != nullptr) impairment_->Clear();
  if (loopback_ != nullptr) loopback_->Clear();
  if (port_ != nullptr) port_->Close();
}

}  // namespace pollux::engine
