#include "tools/pollux/nfsd_control.h"

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

void AddBoth(uint32_t program, uint32_t version, uint64_t port, std::vector<Mapped>* services) {
  for (const MappedTransport transport : {MappedTransport::kTcp, MappedTransport::kUdp}) {
    services->push_back({.program = program,
                         .version = version,
                         .transport = transport,
                         .port = static_cast<uint16_t>(port)});
  }
}

}  // namespace

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
        pollux::Stats stats;
        stats.BeLines();
        for (const auto& [client, locks] : tables->Held()) {
          stats.AddLine(LineOf(client, locks));
        }
        return stats;
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

absl::Status NfsdControl::Register(uint32_t program, uint32_t version, uint64_t port,
                                   std::vector<SocketAddress> endpoints) {
  for (SocketAddress& endpoint : endpoints) endpoint.port = static_cast<uint16_t>(port);
  for (const auto transport : {RpcBind::Transport::kTcp, RpcBind::Transport::kUdp}) {
    auto made = Registration::Make(program, version, endpoints, transport);
    if (!made.ok()) return made.status();
    registered_.push_back(*std::move(made));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> NfsdControl::HasMonitor(const std::vector<SocketAddress>& endpoints) const {
  auto rpcbind = RpcBind::Local();
  if (!rpcbind.ok()) return rpcbind.status();
  for (const SocketAddress& endpoint : endpoints) {
    const auto found =
        rpcbind->Find(nfs::kNsmProgram, nfs::kNsmV1, endpoint.address, RpcBind::Transport::kUdp);
    // One at this port was left by a process before this one.
    if (found.ok() && found->port != options_.status_port) return true;
  }
  return false;
}

absl::Status NfsdControl::Announce(std::vector<SocketAddress> endpoints) {
  if (options_.rpcbind) {
    auto nfs = Registration::Make(nfs::kNfsProgram, nfs::kNfsV3, endpoints);
    if (!nfs.ok()) return nfs.status();
    registered_.push_back(*std::move(nfs));
    const absl::StatusOr<bool> elsewhere = HasMonitor(endpoints);
    if (!elsewhere.ok()) return elsewhere.status();
    is_status_elsewhere_ = *elsewhere;
    absl::Status status =
        Register(nfs::kMountProgram, nfs::kMountV3, options_.mount_port, endpoints);
    if (status.ok()) {
      status = Register(nfs::kNlmProgram, nfs::kNlmV4, options_.lock_port, endpoints);
    }
    if (status.ok() && !is_status_elsewhere_) {
      status = Register(nfs::kNsmProgram, nfs::kNsmV1, options_.status_port, endpoints);
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
