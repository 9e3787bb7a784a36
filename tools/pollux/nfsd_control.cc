#include "tools/pollux/nfsd_control.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/lock/lock_callback.h"
#include "nfs/lock/nlm.h"
#include "nfs/lock/nsm.h"
#include "nfs/mount/mount.h"
#include "nfs/v3/binding.h"
#include "oncrpc/portmap.h"
#include "oncrpc/rpcbind.h"
#include "stack/base/address.h"
#include "tools/stat/client_locks.h"

namespace pollux::tools {
namespace {

using oncrpc::RpcBind;
using Mapped = oncrpc::PortmapCalls::Service;
using MappedTransport = oncrpc::PortmapCalls::Transport;

// DPDK's telemetry drops what exceeds 16 KiB of JSON. This leaves room for the frame and one more
// line of at most kMaxText bytes.
constexpr size_t kMaxLinesBytes = 16'000 - 2 * pollux::Stats::kMaxText;

// Bytes of a line of LineOf() in JSON, with quotes and a comma.
size_t JsonBytes(const std::string& line) {
  const auto escaped =
      std::ranges::count_if(line, [](char letter) { return letter == '\\' || letter == '"'; });
  return line.size() + static_cast<size_t>(escaped) + 3;
}

void AddBoth(uint32_t program, uint32_t version, uint64_t port, std::vector<Mapped>* services) {
  for (const MappedTransport transport : {MappedTransport::kTcp, MappedTransport::kUdp}) {
    services->push_back({.program = program,
                         .version = version,
                         .transport = transport,
                         .port = static_cast<uint16_t>(port)});
  }
}

}  // namespace

pollux::Stats ListLocks(const std::map<nfs::LockClient, nfs::ClientLocks>& held) {
  pollux::Stats stats;
  stats.BeLines();
  size_t bytes = 0, more = 0;
  nfs::ClientLocks others;
  for (const auto& [client, locks] : held) {
    const std::string line = LineOf(client, locks);
    bytes += JsonBytes(line);
    if (bytes <= kMaxLinesBytes && stats.lines().size() + 1 < pollux::Stats::kMaxItems) {
      stats.AddLine(line);
      continue;
    }
    ++more;
    others.files += locks.files;
    others.ranges += locks.ranges;
    others.awaited += locks.awaited;
    others.shares += locks.shares;
  }
  if (more > 0) {
    stats.AddLine(absl::StrCat("- ", others.files, " ", others.ranges, " ", others.awaited, " ",
                               others.shares, " (", more, " more clients, not listed)"));
  }
  return stats;
}

absl::StatusOr<std::unique_ptr<NfsdControl>> NfsdControl::Start(const ControlOptions& options,
                                                                const nfs::ServedExports* exports,
                                                                nfs::LockTables* tables,
                                                                nfs::MonitoredHosts* hosts,
                                                                Log log) {
  std::unique_ptr<NfsdControl> control(
      new NfsdControl(options, exports, tables, hosts, std::move(log)));
  if (absl::Status status = control->StartServices(); !status.ok()) return status;
  if (absl::Status status = control->StartPortmap(); !status.ok()) return status;
  control->OfferLocks();
  return control;
}

// Serves `calls` at a port; `what` and `see` are for errors.
template <class Calls>
absl::StatusOr<NfsdControl::Service> NfsdControl::Serve(Calls* calls, uint64_t port,
                                                        const char* what, const char* see) {
  const auto handler = [calls] {
    return oncrpc::HandlerOf(Calls::kProgram,
                             [calls](oncrpc::ServiceCall call) { calls->Serve(std::move(call)); });
  };
  const auto failed = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(what, ": ", status.message(), "; see ", see));
  };
  Service service;
  auto tcp =
      oncrpc::TcpService::Listen(static_cast<uint16_t>(port), Calls::kMaxCallBytes, handler());
  if (!tcp.ok()) return failed(tcp.status());
  service.tcp = *std::move(tcp);
  auto udp =
      oncrpc::UdpService::Listen(static_cast<uint16_t>(port), Calls::kMaxCallBytes, handler());
  if (!udp.ok()) return failed(udp.status());
  service.udp = *std::move(udp);
  return service;
}

// RFC 8267 section 5.1
absl::Status NfsdControl::StartServices() {
  const auto log = [this](LogLevel level) {
    return [log = log_, level](const std::string& line) { log(level, line); };
  };
  mount_calls_ = std::make_unique<nfs::MountCalls>(exports_, log(LogLevel::kWarning));
  auto mount = Serve(mount_calls_.get(), options_.mount_port, "MOUNT", "--mount-port");
  if (!mount.ok()) return mount.status();
  mount_ = *std::move(mount);
  lock_calls_ = std::make_unique<nfs::LockCalls>(
      exports_, nfs::LockCalls::Options{.tell_granted = &nfs::TellGranted,
                                        .tell_result = &nfs::TellResult,
                                        .tables = tables_,
                                        .hosts = hosts_,
                                        .grace = std::chrono::seconds(options_.grace_s),
                                        .log = log(LogLevel::kError)});
  auto locks = Serve(lock_calls_.get(), options_.lock_port, "NLM", "--lock-port");
  if (!locks.ok()) return locks.status();
  locks_ = *std::move(locks);
  status_calls_ = std::make_unique<nfs::StatusCalls>(
      [this](const Gid& host, uint32_t state, std::optional<std::string_view> name) {
        return lock_calls_->HasRestarted(host, state, name);
      });
  auto status = Serve(status_calls_.get(), options_.status_port, "NSM", "--status-port");
  if (!status.ok()) return status.status();
  status_ = *std::move(status);
  return absl::OkStatus();
}

void NfsdControl::OfferLocks() {
  list_locks_ = std::make_unique<engine::OperatorCommand>(
      kLocksTopic, "Locks of NFS clients: address, files, ranges, awaited, shares, name",
      [tables = tables_](std::string_view /*parameters*/) -> absl::StatusOr<pollux::Stats> {
        return ListLocks(tables->Held());
      });
  drop_locks_ = std::make_unique<engine::OperatorCommand>(
      kDropLocksTopic, "Releases the locks of NFS clients. Parameters: ADDRESS",
      [this](std::string_view parameters) -> absl::StatusOr<pollux::Stats> {
        const absl::StatusOr<Gid> address = pollux::ParseAddress(std::string(parameters));
        if (!address.ok()) return address.status();
        const absl::StatusOr<size_t> clients = lock_calls_->Drop(*address);
        if (!clients.ok()) return clients.status();
        pollux::Stats stats;
        stats.Set("clients", *clients);
        return stats;
      });
}

// Who runs an rpcbind is asked to tell it; who runs none has its answers from here.
absl::Status NfsdControl::StartPortmap() {
  if (options_.rpcbind) return absl::OkStatus();
  std::vector<Mapped> services;
  AddBoth(oncrpc::kPortmapProgram, oncrpc::kPortmapV2, oncrpc::kPortmapPort, &services);
  AddBoth(nfs::kMountProgram, nfs::kMountV3, options_.mount_port, &services);
  AddBoth(nfs::kNlmProgram, nfs::kNlmV4, options_.lock_port, &services);
  AddBoth(nfs::kNsmProgram, nfs::kNsmV1, options_.status_port, &services);
  services.push_back({.program = nfs::kNfsProgram,
                      .version = nfs::kNfsV3,
                      .transport = MappedTransport::kRdma,
                      .port = static_cast<uint16_t>(options_.service_port)});
  portmap_calls_ = std::make_unique<oncrpc::PortmapCalls>(std::move(services));
  auto portmap = Serve(portmap_calls_.get(), oncrpc::kPortmapPort, "rpcbind", "--rpcbind");
  if (absl::IsAlreadyExists(portmap.status())) return absl::OkStatus();
  if (!portmap.ok()) return portmap.status();
  portmap_ = *std::move(portmap);
  return absl::OkStatus();
}

absl::Status NfsdControl::Register(uint32_t program, uint32_t version, uint64_t port) {
  const std::vector<SocketAddress> addresses = AllAddresses(static_cast<uint16_t>(port));
  for (const auto transport : {RpcBind::Transport::kTcp, RpcBind::Transport::kUdp}) {
    auto made = Registration::Make(program, version, addresses, transport);
    if (!made.ok()) return made.status();
    registered_.push_back(*std::move(made));
  }
  return absl::OkStatus();
}

absl::Status NfsdControl::RegisterUnlessElsewhere(uint32_t program, uint32_t version, uint64_t port,
                                                  const char* name, const char* option,
                                                  bool* is_elsewhere) {
  const auto other = FindOtherService(program, version, static_cast<uint16_t>(port));
  if (!other.ok()) return other.status();
  if (!other->has_value()) return Register(program, version, port);
  *is_elsewhere = true;
  log_(LogLevel::kWarning, absl::StrCat("--rpcbind: ", name, " is not registered at port ", port,
                                        " (", option, "): this host's rpcbind already has program ",
                                        program, " version ", version, " at ", ToString(**other),
                                        ", where a service is running. Clients that ask "
                                        "rpcbind find that service; stop it and restart nfsd"));
  return absl::OkStatus();
}

absl::Status NfsdControl::Announce(const std::vector<SocketAddress>& endpoints) {
  if (options_.rpcbind) {
    auto nfs = Registration::Make(nfs::kNfsProgram, nfs::kNfsV3, endpoints);
    if (!nfs.ok()) return nfs.status();
    registered_.push_back(*std::move(nfs));
    const auto monitor = FindOtherService(nfs::kNsmProgram, nfs::kNsmV1,
                                          static_cast<uint16_t>(options_.status_port));
    if (!monitor.ok()) return monitor.status();
    is_status_elsewhere_ = monitor->has_value();
    absl::Status status =
        RegisterUnlessElsewhere(nfs::kMountProgram, nfs::kMountV3, options_.mount_port, "MOUNT",
                                "--mount-port", &is_mount_elsewhere_);
    if (status.ok()) {
      status = RegisterUnlessElsewhere(nfs::kNlmProgram, nfs::kNlmV4, options_.lock_port, "NLM",
                                       "--lock-port", &is_nlm_elsewhere_);
    }
    if (status.ok() && !is_status_elsewhere_) {
      status = Register(nfs::kNsmProgram, nfs::kNsmV1, options_.status_port);
    }
    if (!status.ok()) return status;
  }
  // Who is not a client any more has nothing to ask for.
  notifier_ = std::make_unique<nfs::RestartNotifier>(
      hosts_, [exports = exports_](const Gid& host, uint32_t state) {
        return !exports->Admit(host) || nfs::NotifyOfState(host, state);
      });
  return absl::OkStatus();
}

uint64_t NfsdControl::dropped_datagrams() const {
  uint64_t dropped = 0;
  for (const Service* service : {&mount_, &locks_, &status_, &portmap_}) {
    if (service->udp != nullptr) dropped += service->udp->dropped();
  }
  return dropped;
}

}  // namespace pollux::tools
