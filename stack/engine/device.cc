#include "stack/engine/device.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/engine/polling/clock.h"

namespace pollux::engine {
namespace {

bool IsLoopback(const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return false;
  interface.copy(request.ifr_name, interface.size());
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool known = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  close(fd);
  return known && (request.ifr_flags & IFF_LOOPBACK) != 0;
}

// Devargs of a port that no other in this process has.
std::string PacketSocketsOn(const std::string& interface) {
  static std::atomic<unsigned> count{0};
  return absl::StrFormat("net_af_packet%u,iface=%s", count++, interface);
}

// Whether packets have to pass the queueing discipline (tc) of a kernel's interface. Those that the
// kernel gives by itself limit nothing and only cost time: DPDK's driver bypasses them by default.
bool SetByAdministrator(std::string_view qdisc) {
  constexpr std::string_view kDefaults[] = {"", "noqueue", "mq", "pfifo_fast", "fq_codel"};
  return std::ranges::find(kDefaults, qdisc) == std::end(kDefaults);
}

}  // namespace

uint64_t DeviceEpochNs() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count()) -
         Clock().NowNs();
}

absl::Status Device::ClaimNumbers() {
  const uint32_t interface_index = if_nametoindex(options_.netdev.c_str());
  if (interface_index == 0) return absl::OkStatus();  // OpenKernelInterface() says it
  Random random(Random::SystemSeed());
  auto claims = kernel::InterfaceClaims::Join(interface_index, options_.workers,
                                              options_.queue_pairs, &random);
  if (!claims.ok()) {
    return absl::Status(
        claims.status().code(),
        absl::StrFormat("interface \"%s\": %s", options_.netdev, claims.status().message()));
  }
  claims_ = *std::move(claims);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device>> Device::WithWorkers(const DeviceOptions& options) {
  if (options.workers < 1 || options.workers > DeviceOptions::kMaxWorkers) {
    return absl::InvalidArgumentError(absl::StrFormat("%u workers on a port: 1 to %u are possible",
                                                      options.workers, DeviceOptions::kMaxWorkers));
  }
  if (options.forwards_all && (options.workers != 1 || options.kernel_path.empty())) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "kernel path \"%s\", workers %u: a port that forwards all frames has a kernel path and one "
        "worker; give these",
        options.kernel_path, options.workers));
  }
  std::unique_ptr<Device> device(new Device(options));
  if (absl::Status status = device->ClaimNumbers(); !status.ok()) return status;
  for (uint32_t i = 0; i < options.workers; ++i) {
    WorkerConfig config;
    config.index = i;
    config.max_queue_pairs = options.queue_pairs;
    config.claims = device->claims_.get();
    if (config.claims != nullptr) config.qpn_layout = config.claims->qpn_layout();
    config.seed = Random::SystemSeed();
    config.start_ns = Clock().NowNs();
    absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Create(config);
    if (!worker.ok()) return worker.status();
    device->worker_ports_.push_back(std::make_unique<WorkerPort>(device.get(), i));
    device->worker_ports_.back()->worker = *std::move(worker);
  }
  return device;
}

std::vector<rte_mempool*> Device::PacketPools() const {
  std::vector<rte_mempool*> pools;
  for (const auto& port : worker_ports_) pools.push_back(port->worker->packet_pool());
  return pools;
}

absl::Status Device::OpenKernelInterface(WorkerPort& port, const std::string& name) {
  auto kernel = kernel::KernelInterface::Open(name, /*hold_port=*/port.index == 0);
  if (!kernel.ok()) return kernel.status();
  port.kernel = *std::move(kernel);
  return absl::OkStatus();
}

// Programs on an interface reach each other only if lo is up: `pollux doctor` reports it.
void Device::OpenLocalPort() {
  io::PortOptions options;
  options.devargs = PacketSocketsOn("lo");
  options.pools = PacketPools();
  options.promiscuous = false;
  absl::StatusOr<std::unique_ptr<io::Port>> opened = io::Port::Open(options);
  if (!opened.ok() || !(*opened)->FilterPackets(claims_->qpn_layout()).ok()) return;
  local_port_ = *std::move(opened);
}

absl::Status Device::MakeInterfaces(ip::InterfaceConfig config) {
  if (absl::Status status = ip::CheckConfig(config); !status.ok()) return status;
  if (!options_.kernel_path.empty()) {
    auto tap = kernel::KernelTap::Make(options_.kernel_path, config);
    if (!tap.ok()) return tap.status();
    tap_ = *std::move(tap);
  }
  const std::string of_kernel = options_.forwards_all ? ""
                                : tap_ != nullptr     ? options_.kernel_path
                                                      : options_.netdev;
  for (const auto& port : worker_ports_) {
    if (port->kernel == nullptr && !of_kernel.empty()) {
      if (absl::Status status = OpenKernelInterface(*port, of_kernel); !status.ok()) return status;
    }
    config.answers = port->index == 0 && !options_.forwards_all;
    port->interface.emplace(config, port->kernel.get());
  }
  if (interface().gid_table_size() == 0) {
    if (IsLoopback(options_.netdev)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "interface \"%s\": loopback addresses are not served; use the interface to the peer, or, "
          "for programs on one host, an end of a veth pair for each",
          options_.netdev));
    }
    return absl::FailedPreconditionError(
        absl::StrFormat("interface \"%s\" has no address; `ip addr add ADDR/LEN dev %s`",
                        options_.netdev, options_.netdev));
  }
  if (!ip::PathMtu(config.mtu).ok()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("port %s carries packets of at most %u bytes; RoCE needs at least 352",
                        port_->name(), config.mtu));
  }
  return absl::OkStatus();
}

absl::Status Device::MakeSteering() {
  if (workers() == 1) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<io::SteeringRings>> rings =
      io::SteeringRings::Create(workers(), port_->queues());
  if (!rings.ok()) return rings.status();
  rings_ = *std::move(rings);
  return absl::OkStatus();
}

// From the port's queue up to the worker.
absl::Status Device::BuildLinkChain(WorkerPort& port) {
  rte_mempool* pool = port.worker->packet_pool();
  const ip::InterfaceConfig& config = port.interface->config();
  io::Link* link = nullptr;
  LinkWatch::Look look = [device_port = port_.get()] { return device_port->GetLink(); };
  if (port.index < port_->queues()) {
    io::Port::Queue* queue = &port_->queue(static_cast<uint16_t>(port.index));
    look = [queue] { return queue->FollowLink(); };
    link = &port.loopback.emplace(queue, &config.mac, pool);
    if (local_port_ != nullptr && port.index < local_port_->queues()) {
      port.loopback->ShareWith(&local_port_->queue(static_cast<uint16_t>(port.index)),
                               claims_->qpn_layout());
    }
    if (options_.capture != nullptr) {
      link = &port.capture.emplace(link, options_.capture->AddInterface(port_->name(), config.mac));
    }
    if (options_.impairment.Any()) {
      io::ImpairmentOptions impairment = options_.impairment;
      impairment.seed += port.index;
      link = &port.impairment.emplace(link, impairment, pool);
    }
  }
  if (rings_ != nullptr) {
    io::RxClassifier classifier{.workers = workers(), .gsi_owner = options_.gsi_owner};
    if (claims_ != nullptr) classifier.layout = claims_->qpn_layout();
    if (port.kernel != nullptr) {
      classifier.others =
          tap_ != nullptr ? io::RxClassifier::Others::kToFirst : io::RxClassifier::Others::kLeft;
    }
    link = &port.steering.emplace(classifier, port.index, link, pool, rings_.get());
  }
  Worker& worker = *port.worker;
  // A VLAN tag more than the IP packet needs: the kernel's VLAN devices may stand on the tap.
  constexpr uint16_t kEthernetAndTag = 18;
  const auto frame_bytes = static_cast<uint16_t>(port_->mtu() + kEthernetAndTag);
  if (options_.forwards_all) {
    link = &port.forwarder.emplace(link, tap_->fd(), pool, frame_bytes);
    // A new tap has a carrier.
    look = [look = std::move(look), tap = tap_.get(), carrier = true]() mutable {
      const io::LinkState state = look();
      if (state.up != carrier) tap->SetCarrier(state.up);
      carrier = state.up;
      return state;
    };
    worker.AddPoller(&port);
  } else if (tap_ != nullptr && port.index == 0) {
    auto path = kernel::ExceptionPath::Start(link, tap_->fd(), frame_bytes, options_.start_thread);
    if (!path.ok()) return path.status();
    port.exception_path = *std::move(path);
    link = port.exception_path.get();
  }
  worker.AddPort(&*port.interface, link, port_->name(), port.steering ? &*port.steering : nullptr);
  worker.WatchLink(std::move(look));
  worker.AddStatsProvider(&port);
  if (options_.dcqcn) {
    transport::DcqcnParameters parameters = *options_.dcqcn;
    if (parameters.rpg_max_rate == 0) parameters.rpg_max_rate = port_->GetLink().speed_mbps;
    worker.EnableDcqcn(parameters);
  }
  return absl::OkStatus();
}

absl::Status Device::Attach(std::unique_ptr<io::Port> port) {
  port_ = std::move(port);
  ip::InterfaceConfig config;
  config.mac = options_.mac.value_or(port_->mac());
  config.addresses = options_.addresses;
  config.gateways = options_.gateways;
  config.link_local = true;
  config.mtu = port_->mtu();
  if (absl::Status status = MakeInterfaces(config); !status.ok()) return status;
  if (absl::Status status = MakeSteering(); !status.ok()) return status;
  for (const auto& worker_port : worker_ports_) {
    if (absl::Status status = BuildLinkChain(*worker_port); !status.ok()) return status;
  }
  // Opening a port takes up to seconds; timers count from now on.
  for (const auto& worker_port : worker_ports_) worker_port->worker->AdvanceClock(Clock().NowNs());
  return absl::OkStatus();
}

void Device::CollectPort(Stats* stats) const {
  const io::PortStatistics statistics = port_->Statistics();
  stats->Set("device/rx_frames", statistics.rx_frames);
  stats->Set("device/tx_frames", statistics.tx_frames);
  stats->Set("device/rx_bytes", statistics.rx_bytes);
  stats->Set("device/tx_bytes", statistics.tx_bytes);
  stats->Set("device/rx_missed", statistics.rx_missed);
  stats->Set("device/rx_no_buffer", statistics.rx_no_buffer);
  stats->Set("device/rx_errors", statistics.rx_errors);
  stats->Set("device/tx_errors", statistics.tx_errors);
  stats->Set("device/tx_over_mtu", statistics.tx_over_mtu);
  if (local_port_ != nullptr) {
    stats->Set("loopback/rx_missed", local_port_->Statistics().rx_missed);
  }
  if (workers() == 1) return;
  stats->Set("device/queues", uint64_t{port_->queues()});
  stats->Set("device/sorts_by_qpn", uint64_t{port_->SortsByQpn()});
}

bool Device::WorkerPort::Collect(const StatsQuery& query, Stats* stats) {
  if (query.topic == "worker" && steering) {
    const io::SteeringCounters& counters = steering->counters();
    stats->Set("steering/received", counters.received);
    stats->Set("steering/kept", counters.kept);
    stats->Set("steering/handed_over", counters.handed_over);
    stats->Set("steering/ring_full", counters.ring_full);
    stats->Set("steering/by_ring", counters.by_ring);
    stats->Set("steering/sent_by_ring", counters.sent_by_ring);
    stats->Set("steering/carried", counters.carried);
    stats->Set("steering/no_buffer", counters.no_buffer);
    return true;
  }
  if (query.topic != "port" || query.object.value_or(1) != 1) return false;
  // What the port counts is told once, by worker 0.
  if (index == 0) device->CollectPort(stats);
  if (loopback) {
    stats->Set("loopback/passed", loopback->counters().passed);
    stats->Set("loopback/no_buffer", loopback->counters().no_buffer);
    if (device->local_port_ != nullptr) {
      stats->Set("loopback/to_processes", loopback->counters().to_processes);
      stats->Set("loopback/to_processes_lost", loopback->counters().to_processes_lost);
      stats->Set("loopback/from_processes", loopback->counters().from_processes);
    }
  }
  if (forwarder) {
    stats->Set("tap/to_kernel", forwarder->counters().to_kernel);
    stats->Set("tap/to_kernel_dropped", forwarder->counters().to_kernel_dropped);
    stats->Set("tap/from_kernel", forwarder->counters().from_kernel);
    stats->Set("tap/from_kernel_over_mtu", forwarder->counters().from_kernel_over_mtu);
  }
  if (!impairment) return true;
  for (const auto& [way, counters] : {std::pair("sent", &impairment->send_counters()),
                                      std::pair("received", &impairment->receive_counters())}) {
    const std::string prefix = absl::StrCat("impaired/", way, "/");
    stats->Set(absl::StrCat(prefix, "passed"), counters->passed);
    stats->Set(absl::StrCat(prefix, "lost"), counters->lost);
    stats->Set(absl::StrCat(prefix, "duplicated"), counters->duplicated);
    stats->Set(absl::StrCat(prefix, "reordered"), counters->reordered);
    stats->Set(absl::StrCat(prefix, "corrupted"), counters->corrupted);
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const DeviceOptions& options) {
  absl::StatusOr<std::unique_ptr<Device>> made = WithWorkers(options);
  if (!made.ok()) return made.status();
  Device& device = **made;
  io::PortOptions port;
  port.devargs = options.port;
  if (!options.netdev.empty()) {
    // Before the port: what is wrong with the interface is said better here.
    absl::Status status = device.OpenKernelInterface(*device.worker_ports_[0], options.netdev);
    if (!status.ok()) return status;
    port.devargs = PacketSocketsOn(options.netdev);
    if (SetByAdministrator(device.worker_ports_[0]->kernel->state().qdisc)) {
      port.devargs += ",qdisc_bypass=0";
    }
    port.promiscuous = false;
  }
  port.pools = device.PacketPools();
  port.mac = options.mac;
  port.mtu = options.mtu;
  port.start_timeout_ms = options.start_timeout_ms;
  absl::StatusOr<std::unique_ptr<io::Port>> opened = io::Port::Open(port);
  if (!opened.ok()) return opened.status();
  if (device.claims_ != nullptr) {
    absl::Status status = (*opened)->FilterPackets(device.claims_->qpn_layout());
    if (!status.ok()) return status;
    device.OpenLocalPort();
  }
  if (absl::Status status = device.Attach(*std::move(opened)); !status.ok()) return status;
  return made;
}

absl::StatusOr<Device::Pair> Device::OpenPair(const DeviceOptions& a, const DeviceOptions& b) {
  static std::atomic<unsigned> count{0};
  absl::StatusOr<std::unique_ptr<Device>> first = WithWorkers(a);
  if (!first.ok()) return first.status();
  absl::StatusOr<std::unique_ptr<Device>> second = WithWorkers(b);
  if (!second.ok()) return second.status();
  Pair pair(*std::move(first), *std::move(second));
  absl::StatusOr<io::Port::Pair> ports = io::Port::CreateRingPair(
      absl::StrFormat("pair%u", count++), pair.first->PacketPools(), pair.second->PacketPools());
  if (!ports.ok()) return ports.status();
  if (absl::Status status = pair.first->Attach(std::move(ports->first)); !status.ok()) {
    return status;
  }
  if (absl::Status status = pair.second->Attach(std::move(ports->second)); !status.ok()) {
    return status;
  }
  return pair;
}

Device::~Device() {
  static_assert(alignof(WorkerPort) == 64 && sizeof(WorkerPort) % 64 == 0);
  Close();
}

Gid Device::gid() const {
  if (!options_.addresses.empty()) return options_.addresses[0].address;
  const ip::Interface& interface = this->interface();
  for (uint32_t i = 0; i < interface.gid_table_size(); ++i) {
    const absl::StatusOr<Gid> gid = interface.QueryGid(static_cast<int>(i));
    if (gid.ok() && !gid->IsLinkLocal()) return *gid;
  }
  return interface.QueryGid(0).value_or(Gid{});
}

absl::Status Device::CheckInterface() const {
  absl::Status status = port_->CheckInterface();
  if (status.ok() && tap_ != nullptr) status = tap_->CheckInterface();
  return status;
}

absl::Status Device::JoinMulticast(const Gid& group, uint16_t vlan) {
  transport::PollContext context = worker().poll_context();
  return worker_ports_[0]->interface->JoinMulticast(group, context, vlan);
}

absl::Status Device::LeaveMulticast(const Gid& group, uint16_t vlan) {
  transport::PollContext context = worker().poll_context();
  return worker_ports_[0]->interface->LeaveMulticast(group, context, vlan);
}

void Device::Close() {
  for (const auto& port : worker_ports_) {
    if (port->interface) port->interface->Clear();
    if (port->exception_path != nullptr) port->exception_path->Stop();
    if (port->forwarder) port->forwarder->Clear();
    if (port->steering) port->steering->Clear();
    if (port->impairment) port->impairment->Clear();
    if (port->loopback) port->loopback->Clear();
  }
  if (rings_ != nullptr) rings_->Clear();
  if (local_port_ != nullptr) local_port_->Close();
  if (port_ != nullptr) port_->Close();
}

}  // namespace pollux::engine
