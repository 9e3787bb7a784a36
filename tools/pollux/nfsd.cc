// pollux nfsd: directories by NFS version 3 over RPC-over-RDMA, until interrupted.
#include <net/if.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nfs/export/exports_file.h"
#include "nfs/lock/lock_tables.h"
#include "nfs/lock/monitored_hosts.h"
#include "nfs/server/server.h"
#include "oncrpc/portmap.h"
#include "oncrpc/socket_address.h"
#include "stack/base/address.h"
#include "stack/transport/diagnostics/counters.h"
#include "tools/common/interrupt.h"
#include "tools/common/listen_addresses.h"
#include "tools/common/log_format.h"
#include "tools/common/options.h"
#include "tools/common/peer_address.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/file_service/session.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/nfsd_control.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

// As IANA has mountd's and nlockmgr's; the last as administrators have statd's when it is to have a
// fixed one.
constexpr uint16_t kMountPort = 20048;
constexpr uint16_t kLockPort = 4045;
constexpr uint16_t kStatusPort = 662;
// In which clients notice, by SM_NOTIFY or by what they are at, and ask for what they held.
constexpr uint64_t kGraceSeconds = 45;
constexpr uint64_t kMaxGraceSeconds = 3600;
constexpr uint64_t kMaxConnections = 10'000;
constexpr uint64_t kMaxLocks = 1'000'000;
constexpr char kStateDirectory[] = "/var/lib/pollux";
constexpr int kStorageSeconds = 30;  // how long storage may take for the last calls
constexpr int kReplySeconds = 5;     // of these, how long clients stay connected for the replies

struct NfsdOptions {
  PortOptions port;
  std::vector<nfs::Export> exports;
  std::string exports_file;
  std::string key_file;
  std::string lock_file;
  uint64_t max_connections = nfs::ServerOptions{}.max_connections;
  uint64_t max_connections_per_client = 0;
  uint64_t max_locks = nfs::LockLimits{}.files;
  uint64_t max_locks_per_client = nfs::LockLimits{}.of_address;
  ControlOptions control{.service_port = nfs::kNfsRdmaPort,
                         .mount_port = kMountPort,
                         .lock_port = kLockPort,
                         .status_port = kStatusPort,
                         .grace_s = kGraceSeconds};
  bool json = false;
};

constexpr char kName[] = "nfsd";  // in the log

size_t MaxExports(const NfsdOptions& options) {
  return options.exports_file.empty() ? options.exports.size() : nfs::kMaxServedExports;
}

// What came of it.
struct Served {
  uint64_t calls = 0;
  nfs::Counters nfs;
  transport::Counters counters;
  uint64_t dropped_datagrams = 0;
};

nfs::LockLimits LimitsOf(const NfsdOptions& options) {
  constexpr size_t kFilesForOneThatWaits = 4;
  return {.files = options.max_locks,
          .waiting = std::max<size_t>(1, options.max_locks / kFilesForOneThatWaits),
          .shares = options.max_locks,
          .of_address = options.max_locks_per_client};
}

// As many files as calls and locks have open at once, and some. What the system does not let us
// have is taken off the locks: calls are not to fail for them.
nfs::LockLimits RaiseFileLimit(const NfsdOptions& options) {
  constexpr rlim_t kFilesOfACall = 4, kOthers = 2048;
  nfs::LockLimits limits = LimitsOf(options);
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return limits;
  const rlim_t exports = MaxExports(options);
  const rlim_t without_locks = exports * nfs::Storage::kMaxJobs * kFilesOfACall + kOthers;
  const rlim_t of_locks = limits.files + limits.waiting;
  const rlim_t wanted = std::max(limit.rlim_cur, without_locks + exports * of_locks);
  const rlimit raised{.rlim_cur = wanted, .rlim_max = std::max(limit.rlim_max, wanted)};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return limits;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return limits;
  const rlim_t left = limit.rlim_cur - std::min(limit.rlim_cur, without_locks);
  limits.files = limits.files * left / (exports * of_locks);
  limits.waiting = limits.waiting * left / (exports * of_locks);
  return limits;
}

std::string InStateDirectory(const std::string& path, const char* name) {
  if (!path.empty()) return path;
  mkdir(kStateDirectory, 0700);
  return absl::StrCat(kStateDirectory, "/", name);
}

// What to type on a Linux client. Its kernel asks port 111 here for the ports of MOUNT and,
// whatever it is told, of NLM.
std::string MountCommand(const NfsdControl& control, const NfsdOptions& options,
                         const SocketAddress& at, const nfs::Export& exported) {
  std::string ports;
  if (!control.is_mount_found()) {
    absl::StrAppend(&ports, ",mountport=", options.control.mount_port);
  }
  if (!control.is_nlm_found()) absl::StrAppend(&ports, ",nolock");
  const std::string address = FormatAddress(at.address);
  const std::string host = at.address.IsIpv4() ? address : absl::StrCat("[", address, "]");
  return absl::StrFormat("mount -t nfs -o vers=3,proto=%s,port=%u%s %s /mnt",
                         at.address.IsIpv4() ? "rdma" : "rdma6", at.port, ports,
                         ShellQuoted(absl::StrCat(host, ":", exported.directory)));
}

const char* ModeOf(const nfs::Export& exported) {
  const auto is_read_only = [](const nfs::ClientRule& rule) { return rule.rights.read_only; };
  if (std::ranges::all_of(exported.clients, is_read_only)) return "read-only";
  return std::ranges::any_of(exported.clients, is_read_only) ? "read-write for some clients"
                                                             : "read-write";
}

void Announce(const NfsdOptions& options, const NfsdControl& control,
              const nfs::ServedExports& exports, const std::vector<SocketAddress>& endpoints) {
  const engine::DeviceOptions& device = options.port.device;
  if (device.netdev.empty() && device.kernel_path.empty()) {
    WriteLog(LogLevel::kWarning, kName,
             "MOUNT and NLM are served at the addresses of this host's kernel; with --netdev or "
             "--kernel-path, at those of the port");
  }
  if (control.is_status_elsewhere()) {
    WriteLog(LogLevel::kWarning, kName,
             "clients report their restarts to another status monitor of this host: their locks "
             "are freed only when they lock again");
  }
  if (!options.control.rpcbind && !control.is_nlm_found()) {
    WriteLog(LogLevel::kWarning, kName,
             absl::StrFormat("this host's rpcbind uses TCP port %u: clients find the lock service "
                             "only with --rpcbind",
                             oncrpc::kPortmapPort));
  }
  // The kernel's interfaces may lose theirs at any time, and get others.
  if (endpoints.empty()) {
    WriteLog(LogLevel::kWarning, kName,
             absl::StrCat("serving NFS on ", Place(device), ", which no longer has an address"));
    return;
  }
  for (const nfs::ExportEntry& entry : *exports.table()) {
    const nfs::Export& exported = entry.tree->exported();
    WriteLog(LogLevel::kInfo, kName,
             absl::StrCat(exported.directory, ", ", ModeOf(exported), ": ",
                          MountCommand(control, options, endpoints.front(), exported)));
  }
  WriteLog(LogLevel::kInfo, kName,
           absl::StrCat("serving NFS at ", ListOf(endpoints), " on ", Place(device)));
}

// What --exports FILE says now. Warnings are logged.
absl::StatusOr<std::vector<nfs::Export>> ReadExportsOf(const NfsdOptions& options) {
  if (options.exports_file.empty()) return options.exports;
  auto file = nfs::ReadExports(options.exports_file, &ResolveHost);
  if (!file.ok()) return file.status();
  for (const std::string& warning : file->warnings) {
    WriteLog(LogLevel::kWarning, kName, warning);
  }
  return std::move(file->exports);
}

// Puts `trees`, the exports of `file`, into effect. `path` names the file in the log. If the
// exports could not be opened, only logs the warnings of the file, and returns the error.
absl::Status Apply(const std::string& path, const nfs::ExportsFile& file,
                   const absl::StatusOr<nfs::ExportTrees>& trees, Node& node,
                   nfs::ServedExports* exports, nfs::Server* server) {
  for (const std::string& warning : file.warnings) {
    node.log().Write(LogLevel::kWarning, kName, warning);
  }
  if (!trees.ok()) return trees.status();
  auto table = exports->PrepareTrees(*trees);
  if (!table.ok()) return table.status();
  node.Run([&] { server->Serve(**table); });
  exports->Publish(*table);
  node.log().Write(LogLevel::kInfo, kName,
                   absl::StrCat("SIGHUP: serving ", (*table)->size(), " exports of ", path));
  return absl::OkStatus();
}

bool WaitFor(Node& node, int seconds, const std::function<bool()>& done) {
  constexpr auto kEvery = std::chrono::milliseconds(10);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!node.Run(done)) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(kEvery);
  }
  return true;
}

// Calls in progress are answered, if storage is quick, and clients are told.
void End(Node& node, const nfs::ServedExports& exports, std::unique_ptr<nfs::Server> server) {
  node.Run([&] { server->StopTakingCalls(); });
  WaitFor(node, kReplySeconds, [&] { return server->running() == 0; });
  node.Run([&] { server->Shutdown(); });
  WaitFor(node, kDisconnectSeconds, [&] { return server->connections() == 0; });
  const auto busy = [&] { return server->busy() + exports.control_work(); };
  if (!WaitFor(node, kStorageSeconds - kReplySeconds, [&] { return busy() == 0; })) {
    WriteLog(LogLevel::kError, kName,
             absl::StrFormat("storage has not finished %u calls in %d s; ending without them",
                             node.Run(busy), kStorageSeconds));
    std::_Exit(kExitFailure);
  }
  node.Run([&] { server.reset(); });
}

absl::Status ServeUntilInterrupted(const NfsdOptions& options, Node& node,
                                   nfs::ServedExports* exports, nfs::Server* server,
                                   nfs::LockTables* tables, nfs::MonitoredHosts* hosts,
                                   uint64_t* dropped_datagrams) {
  SleepUntilInterrupted(kProbeMs);
  if (const auto conflict = AddressConflict(node)) return absl::AlreadyExistsError(*conflict);
  const auto log = [&node](LogLevel level, const std::string& line) {
    node.log().Write(level, kName, line);
  };
  // Lock managers and status monitors of clients are called through the kernel's sockets, which
  // need an interface in addition to a link-local address.
  const engine::DeviceOptions& device = options.port.device;
  oncrpc::SetLinkLocalInterface(
      if_nametoindex((device.netdev.empty() ? device.kernel_path : device.netdev).c_str()));
  const auto control = NfsdControl::Start(options.control, exports, tables, hosts, log);
  if (!control.ok()) return control.status();
  const std::vector<SocketAddress> endpoints =
      ListenAddresses(node, static_cast<uint16_t>(options.control.service_port));
  absl::Status status = (*control)->Announce(endpoints);
  if (status.ok()) Announce(options, **control, *exports, endpoints);
  if (status.ok()) {
    ServiceActions actions{.name = kName};
    if (!options.exports_file.empty()) {
      // Reading and opening may end after this function: they use only `path` and `key`, copies.
      actions.reload = [path = options.exports_file, key = exports->key(), &node, exports,
                        server]() -> absl::StatusOr<ServiceActions::Apply> {
        auto file = nfs::ReadExports(path, &ResolveHost);
        if (!file.ok()) return file.status();
        auto trees = nfs::ServedExports::OpenTrees(file->exports, key);
        return ServiceActions::Apply(
            [path, read = *std::move(file), opened = std::move(trees), &node, exports, server] {
              return Apply(path, read, opened, node, exports, server);
            });
      };
      actions.tick = [&] { tables->CloseRemoved(exports); };
    }
    status = StayUntilInterrupted(node, actions);
  }
  *dropped_datagrams = (*control)->dropped_datagrams();
  return status;
}

absl::Status Serve(const NfsdOptions& options, Served* served) {
  if (options.port.cores.size() > 1) {
    return absl::InvalidArgumentError(
        "--cores: open files and locks belong to one worker; give --core N");
  }
  if (options.exports.empty() == options.exports_file.empty()) {
    return absl::InvalidArgumentError(
        "which directories? give either --export DIR:rw or --exports FILE");
  }
  if (absl::Status status = nfs::ServedExports::CheckRights(); !status.ok()) return status;
  const nfs::LockLimits limits = RaiseFileLimit(options);
  auto hosts = nfs::MonitoredHosts::Open(InStateDirectory(
      options.lock_file.empty() && !options.key_file.empty() ? options.key_file + ".locks"
                                                             : options.lock_file,
      "nfsd.locks"));
  if (!hosts.ok()) return hosts.status();
  std::optional<nfs::LockTables> tables;
  const auto read = ReadExportsOf(options);
  if (!read.ok()) return read.status();
  auto exports = nfs::ServedExports::Open(*read, InStateDirectory(options.key_file, "nfsd.key"));
  if (!exports.ok()) return exports.status();
  tables.emplace(**exports, limits);
  absl::StatusOr<std::unique_ptr<Node>> started = StartNode(options.port);
  if (!started.ok()) return started.status();
  Node& node = **started;
  auto server = node.Run([&] {
    nfs::ServerOptions serve;
    serve.port = static_cast<uint16_t>(options.control.service_port);
    serve.max_connections = static_cast<uint32_t>(options.max_connections);
    serve.max_connections_per_client = static_cast<uint32_t>(options.max_connections_per_client);
    serve.max_exports = MaxExports(options);
    serve.log = [&node](const std::string& line) {
      node.log().Write(LogLevel::kInfo, kName, line);
    };
    serve.log_refusal = [&node](const std::string& line) {
      node.log().Write(LogLevel::kWarning, kName, line);
    };
    serve.has_failed = [&node](const SocketAddress& client) {
      return node.failures().TakeWritten(client);
    };
    return nfs::Server::Listen(&node.device().worker(), &node.manager(), exports->get(),
                               std::move(serve));
  });
  if (!server.ok()) return server.status();
  if (limits.files < options.max_locks) {
    WriteLog(LogLevel::kWarning, kName,
             absl::StrFormat("the limit of open files is too low for --max-locks (see ulimit -Hn): "
                             "clients can lock only %u files in each export",
                             limits.files));
  }
  const absl::Status status =
      ServeUntilInterrupted(options, node, exports->get(), server->get(), &*tables, hosts->get(),
                            &served->dropped_datagrams);
  node.Run([&] {
    served->nfs = (*server)->counters();
    served->calls = served->nfs.calls();
  });
  End(node, **exports, *std::move(server));
  // Only these have something to ask for when it starts again.
  (*hosts)->KeepOnly(tables->Hosts()).IgnoreError();
  served->counters = node.Run([&] { return node.device().worker().counters(); });
  node.StopPolling();
  return status;
}

absl::Status Report(const absl::Status& status, const Served& served) {
  nlohmann::ordered_json json;
  json["ok"] = status.ok();
  if (!status.ok()) json["error"] = std::string(status.message());
  json["calls"] = served.calls;
  json["bytes_read"] = served.nfs.bytes_read;
  json["bytes_written"] = served.nfs.bytes_written;
  json["packets_sent"] = served.counters.sent_pkts;
  json["retransmitted_packets"] = served.counters.retransmitted();
  json["dropped_datagrams"] = served.dropped_datagrams;
  AddCongestion(served.counters, &json);
  return PrintJson(json);
}

}  // namespace

int NfsdCommand(int argc, char** argv) {
  NfsdOptions nfsd;
  Options options(
      "nfsd --export DIR [options] | nfsd --exports FILE [options]",
      "Serves directories by NFS version 3 over RPC-over-RDMA, and MOUNT version 3, NLM version 4\n"
      "and NSM version 1 over the kernel's TCP and UDP, until SIGINT or SIGTERM. Needs root.");
  DeclarePortOptions(options, &nfsd.port);
  options.Parsed("export", "DIR[:ro|rw][,OPTION]...",
                 "a directory, read-only unless :rw. OPTION is\nclients=CIDR (repeatable; default: "
                 "everybody) or\nno_root_squash. Repeat for more directories",
                 [&nfsd](const std::string& text) {
                   absl::StatusOr<nfs::Export> exported = nfs::ParseExport(text);
                   if (!exported.ok()) return exported.status();
                   nfsd.exports.push_back(*std::move(exported));
                   return absl::OkStatus();
                 });
  options.Text("exports", "FILE",
               "directories and clients, in the syntax of exports(5), instead of\n--export. "
               "SIGHUP reads it again",
               &nfsd.exports_file);
  options.Text("key-file", "FILE",
               absl::StrCat("key that seals file handles; created if missing (", kStateDirectory,
                            "/nfsd.key)"),
               &nfsd.key_file);
  options.Text("lock-file", "FILE",
               absl::StrCat("remembers which hosts hold locks (--key-file's name with .locks, or\n",
                            kStateDirectory, "/nfsd.locks)"),
               &nfsd.lock_file);
  ControlOptions& control = nfsd.control;
  options.Number("service-port", "RDMA port of NFS (20049)", 1, 65535, &control.service_port);
  options.Number("mount-port", "port of MOUNT (20048)", 1, 65535, &control.mount_port);
  options.Number("lock-port", "port of NLM, for locks (4045)", 1, 65535, &control.lock_port);
  options.Number("status-port", "port of NSM, for clients that restart (662)", 1, 65535,
                 &control.status_port);
  options.Number("grace-s",
                 "seconds after a start in which hosts may reclaim the locks that they\nheld, and "
                 "others wait (45)",
                 0, kMaxGraceSeconds, &control.grace_s);
  options.Number("max-connections", "connections of all clients together (1024)", 1,
                 kMaxConnections, &nfsd.max_connections);
  options.Number(
      "max-connections-per-client",
      "connections per address (0: one more only while the address has\nfewer than are still free)",
      0, kMaxConnections, &nfsd.max_connections_per_client);
  options.Number("max-locks", "files that all clients together may lock in an export (16384)", 1,
                 kMaxLocks, &nfsd.max_locks);
  options.Number(
      "max-locks-per-client",
      "locks per address (0: one more only while the address has fewer\nthan are still free)", 0,
      kMaxLocks, &nfsd.max_locks_per_client);
  options.Switch("rpcbind",
                 "register the services with this host's rpcbind while nfsd runs;\n"
                 "if the host has none, nfsd itself answers on port 111",
                 &control.rpcbind);
  DeclareLogOption(options);
  options.Switch("json", "at the end, one JSON object on standard output", &nfsd.json);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("nfsd", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  CatchInterrupts(ClosedPipe::kInterrupts, Hangup::kReloads);
  Served served;
  absl::Status status = Serve(nfsd, &served);
  if (nfsd.json) status.Update(Report(status, served));
  return status.ok() ? kExitOk : Fail("nfsd", status);
}

}  // namespace pollux::tools
