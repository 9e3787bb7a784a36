// pollux nfsd: directories by NFS version 3 over RPC-over-RDMA, until interrupted.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nfs/mount.h"
#include "nfs/nlm.h"
#include "nfs/portmap.h"
#include "nfs/server/lock_callback.h"
#include "nfs/server/lock_calls.h"
#include "nfs/server/mount_calls.h"
#include "nfs/server/portmap_calls.h"
#include "nfs/server/record_server.h"
#include "nfs/server/server.h"
#include "stack/net/address.h"
#include "stack/transport/counters.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/port_options.h"
#include "tools/registration.h"
#include "tools/remote.h"
#include "tools/report.h"
#include "tools/served_at.h"
#include "tools/session.h"

namespace pollux::tools {
namespace {

// As IANA has mountd's and nlockmgr's.
constexpr uint16_t kMountPort = 20048;
constexpr uint16_t kLockPort = 4045;
constexpr char kStateDirectory[] = "/var/lib/pollux";
constexpr int kStorageSeconds = 30;  // how long storage may take for the last calls

struct NfsdOptions {
  PortOptions port;
  std::vector<nfs::Export> exports;
  std::string key_file;
  uint64_t service_port = nfs::kNfsRdmaPort;
  uint64_t mount_port = kMountPort;
  uint64_t lock_port = kLockPort;
  bool rpcbind = false;
  bool json = false;
};

// Of NFS, MOUNT and NLM in this host's rpcbind.
struct Registered {
  std::unique_ptr<Registration> nfs;
  std::unique_ptr<Registration> mount;
  std::unique_ptr<Registration> locks;
};

// What goes with NFS, over the kernel's TCP.
struct Control {
  std::unique_ptr<nfs::MountCalls> mount_calls;
  std::unique_ptr<nfs::LockCalls> lock_calls;
  std::unique_ptr<nfs::PortmapCalls> portmap_calls;
  std::unique_ptr<nfs::RecordServer> mount;
  std::unique_ptr<nfs::RecordServer> locks;
  std::unique_ptr<nfs::RecordServer> portmap;  // null where this host has an rpcbind
};

// What came of it.
struct Served {
  uint64_t calls = 0;
  nfs::Counters nfs;
  transport::Counters counters;
};

// As many files as calls and locks have open at once, and some; as far as the system lets us.
void RaiseFileLimit() {
  constexpr rlim_t kFilesOfACall = 4, kOthers = 1024;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t of_an_export = nfs::Storage::kMaxJobs * kFilesOfACall + nfs::LockTable::kMaxOwned +
                              nfs::LockTable::kMaxWaiting;
  const rlim_t wanted = nfs::kMaxServedExports * of_an_export + kOthers;
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, wanted));
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::StatusOr<std::unique_ptr<nfs::ServedExports>> OpenExports(const NfsdOptions& options) {
  if (!options.key_file.empty()) return nfs::ServedExports::Open(options.exports, options.key_file);
  mkdir(kStateDirectory, 0700);
  return nfs::ServedExports::Open(options.exports, absl::StrCat(kStateDirectory, "/nfsd.key"));
}

// Serves `calls` at a TCP port; `what` and `see` are for errors.
template <class Calls>
absl::StatusOr<std::unique_ptr<nfs::RecordServer>> StartControl(Calls* calls, uint64_t port,
                                                                const char* what, const char* see) {
  auto server = nfs::RecordServer::Listen(
      static_cast<uint16_t>(port), Calls::kMaxCallBytes,
      nfs::HandlerOf(Calls::kProgram,
                     [calls](nfs::ControlCall call) { calls->Serve(std::move(call)); }));
  if (server.ok()) return server;
  return absl::Status(server.status().code(),
                      absl::StrCat(what, ": ", server.status().message(), "; see ", see));
}

// Who runs an rpcbind is asked to tell it; who runs none has its answers from here.
absl::Status StartPortmap(const NfsdOptions& options, Control* control) {
  if (options.rpcbind) return absl::OkStatus();
  const auto tcp = [](uint32_t program, uint32_t version, uint64_t port) {
    return nfs::PortmapCalls::Service{
        .program = program, .version = version, .rdma = false, .port = static_cast<uint16_t>(port)};
  };
  control->portmap_calls = std::make_unique<nfs::PortmapCalls>(
      std::vector{tcp(nfs::kPortmapProgram, nfs::kPortmapV2, nfs::kPortmapPort),
                  tcp(nfs::kMountProgram, nfs::kMountV3, options.mount_port),
                  tcp(nfs::kNlmProgram, nfs::kNlmV4, options.lock_port),
                  nfs::PortmapCalls::Service{.program = nfs::kNfsProgram,
                                             .version = nfs::kNfsV3,
                                             .rdma = true,
                                             .port = static_cast<uint16_t>(options.service_port)}});
  auto portmap =
      StartControl(control->portmap_calls.get(), nfs::kPortmapPort, "rpcbind", "--rpcbind");
  if (absl::IsAlreadyExists(portmap.status())) return absl::OkStatus();
  if (!portmap.ok()) return portmap.status();
  control->portmap = *std::move(portmap);
  return absl::OkStatus();
}

absl::StatusOr<Control> StartControls(const NfsdOptions& options,
                                      const nfs::ServedExports* exports) {
  Control control;
  control.mount_calls = std::make_unique<nfs::MountCalls>(exports);
  auto mount = StartControl(control.mount_calls.get(), options.mount_port, "MOUNT", "--mount-port");
  if (!mount.ok()) return mount.status();
  control.mount = *std::move(mount);
  control.lock_calls = std::make_unique<nfs::LockCalls>(exports, &nfs::TellGranted);
  auto locks = StartControl(control.lock_calls.get(), options.lock_port, "NLM", "--lock-port");
  if (!locks.ok()) return locks.status();
  control.locks = *std::move(locks);
  if (absl::Status status = StartPortmap(options, &control); !status.ok()) return status;
  return control;
}

absl::Status Register(const NfsdOptions& options, std::vector<cm::Endpoint> endpoints,
                      Registered* registered) {
  if (!options.rpcbind) return absl::OkStatus();
  auto nfs = Registration::Make(nfs::kNfsProgram, nfs::kNfsV3, endpoints);
  if (!nfs.ok()) return nfs.status();
  registered->nfs = *std::move(nfs);
  for (cm::Endpoint& endpoint : endpoints) {
    endpoint.port = static_cast<uint16_t>(options.mount_port);
  }
  auto mount = Registration::MakeTcp(nfs::kMountProgram, nfs::kMountV3, endpoints);
  if (!mount.ok()) return mount.status();
  registered->mount = *std::move(mount);
  for (cm::Endpoint& endpoint : endpoints) {
    endpoint.port = static_cast<uint16_t>(options.lock_port);
  }
  auto locks = Registration::MakeTcp(nfs::kNlmProgram, nfs::kNlmV4, endpoints);
  if (!locks.ok()) return locks.status();
  registered->locks = *std::move(locks);
  return absl::OkStatus();
}

// What to type on a Linux client. Its kernel asks port 111 here for the ports of MOUNT and,
// whatever it is told, of NLM.
std::string MountCommand(bool found, const NfsdOptions& options, const cm::Endpoint& at,
                         const nfs::Export& exported) {
  const std::string ports = found ? "" : absl::StrCat(",mountport=", options.mount_port, ",nolock");
  const std::string address = net::FormatAddress(at.address);
  return absl::StrFormat("mount -t nfs -o vers=3,proto=%s,port=%u%s %s:%s /mnt",
                         at.address.IsIpv4() ? "rdma" : "rdma6", at.port, ports,
                         at.address.IsIpv4() ? address : absl::StrCat("[", address, "]"),
                         exported.directory);
}

void Announce(const NfsdOptions& options, const Control& control,
              const std::vector<cm::Endpoint>& endpoints) {
  const engine::DeviceOptions& device = options.port.device;
  if (device.netdev.empty() && device.kernel_path.empty()) {
    std::fprintf(stderr,
                 "MOUNT and NLM are at the addresses of this host's kernel: --netdev or "
                 "--kernel-path make them the port's\n");
  }
  const bool found = options.rpcbind || control.portmap != nullptr;
  if (!found) {
    std::fprintf(stderr,
                 "an rpcbind of this host has TCP port %u: clients find locks only with "
                 "--rpcbind\n",
                 nfs::kPortmapPort);
  }
  for (const nfs::Export& exported : options.exports) {
    std::fprintf(stderr, "%s, %s: %s\n", exported.directory.c_str(),
                 exported.read_only ? "read-only" : "read-write",
                 MountCommand(found, options, endpoints.front(), exported).c_str());
  }
  std::fprintf(stderr, "serving NFS at %s on %s\n", ListOf(endpoints).c_str(),
               Place(device).c_str());
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

// Clients are told; the calls that storage has not answered end first.
void End(Node& node, const nfs::ServedExports& exports, std::unique_ptr<nfs::Server> server) {
  node.Run([&] { server->Shutdown(); });
  WaitFor(node, kGoodbyeSeconds, [&] { return server->connections() == 0; });
  const auto busy = [&] { return server->busy() + exports.control_work(); };
  if (!WaitFor(node, kStorageSeconds, [&] { return busy() == 0; })) {
    std::fprintf(stderr, "pollux nfsd: storage has not answered %zu calls in %d s; ends without\n",
                 node.Run(busy), kStorageSeconds);
    std::_Exit(kExitFailure);
  }
  node.Run([&] { server.reset(); });
}

absl::Status ServeUntilInterrupted(const NfsdOptions& options, Node& node,
                                   nfs::ServedExports* exports) {
  SleepUntilInterrupted(kProbeMs);
  if (const auto conflict = AddressConflict(node)) return absl::AlreadyExistsError(*conflict);
  const auto control = StartControls(options, exports);
  if (!control.ok()) return control.status();
  const std::vector<cm::Endpoint> endpoints =
      ServedAt(node, static_cast<uint16_t>(options.service_port));
  Registered registered;
  absl::Status status = Register(options, endpoints, &registered);
  if (status.ok()) Announce(options, *control, endpoints);
  return status.ok() ? StayUntilInterrupted(node) : status;
}

absl::Status Serve(const NfsdOptions& options, Served* served) {
  RaiseFileLimit();
  auto exports = OpenExports(options);
  if (!exports.ok()) return exports.status();
  absl::StatusOr<std::unique_ptr<Node>> started = StartNode(options.port);
  if (!started.ok()) return started.status();
  Node& node = **started;
  auto server = node.Run([&] {
    nfs::ServerOptions serve;
    serve.port = static_cast<uint16_t>(options.service_port);
    serve.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    return nfs::Server::Listen(&node.device().worker(), &node.manager(), exports->get(),
                               std::move(serve));
  });
  if (!server.ok()) return server.status();
  const absl::Status status = ServeUntilInterrupted(options, node, exports->get());
  node.Run([&] {
    served->nfs = (*server)->counters();
    served->calls = served->nfs.calls();
  });
  End(node, **exports, *std::move(server));
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
  AddCongestion(served.counters, &json);
  return PrintJson(json);
}

}  // namespace

int NfsdCommand(int argc, char** argv) {
  NfsdOptions nfsd;
  Options options(
      "nfsd --export DIR [options]",
      "Serves directories by NFS version 3 over RPC-over-RDMA, and MOUNT version 3 and NLM\n"
      "version 4 over the kernel's TCP, until SIGINT or SIGTERM. Needs root.");
  DeclarePortOptions(options, &nfsd.port);
  options.Parsed("export", "DIR[:ro|rw][,OPTION]...",
                 "a directory, read-only unless :rw; OPTION is\nclients=CIDR, again for more (else "
                 "everybody), or\nno_root_squash; again for more directories",
                 [&nfsd](const std::string& text) {
                   absl::StatusOr<nfs::Export> exported = nfs::ParseExport(text);
                   if (!exported.ok()) return exported.status();
                   nfsd.exports.push_back(*std::move(exported));
                   return absl::OkStatus();
                 });
  options.Text(
      "key-file", "FILE",
      absl::StrCat("seals file handles, made when there is none (", kStateDirectory, "/nfsd.key)"),
      &nfsd.key_file);
  options.Number("service-port", "RDMA port of NFS (20049)", 1, 65535, &nfsd.service_port);
  options.Number("mount-port", "TCP port of MOUNT (20048)", 1, 65535, &nfsd.mount_port);
  options.Number("lock-port", "TCP port of NLM, for locks (4045)", 1, 65535, &nfsd.lock_port);
  options.Switch("rpcbind",
                 "register them with the rpcbind of this host meanwhile; where there\n"
                 "is none, TCP port 111 answers for them",
                 &nfsd.rpcbind);
  options.Switch("json", "at the end, one JSON object on standard output", &nfsd.json);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("nfsd", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  CatchInterrupts();
  Served served;
  absl::Status status = Serve(nfsd, &served);
  if (nfsd.json) status.Update(Report(status, served));
  return status.ok() ? kExitOk : Fail("nfsd", status);
}

}  // namespace pollux::tools
