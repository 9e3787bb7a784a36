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
#include "nfs/server/mount_calls.h"
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

constexpr uint16_t kMountPort = 20048;  // mountd's, as IANA has it
constexpr char kStateDirectory[] = "/var/lib/pollux";
constexpr int kStorageSeconds = 30;  // how long storage may take for the last calls

struct NfsdOptions {
  PortOptions port;
  std::vector<nfs::Export> exports;
  std::string key_file;
  uint64_t service_port = nfs::kNfsRdmaPort;
  uint64_t mount_port = kMountPort;
  bool rpcbind = false;
  bool json = false;
};

// Of NFS and of MOUNT, in this host's rpcbind.
struct Registered {
  std::unique_ptr<Registration> nfs;
  std::unique_ptr<Registration> mount;
};

// What came of it.
struct Served {
  uint64_t calls = 0;
  nfs::Counters nfs;
  transport::Counters counters;
};

// As many files as calls have open at once, and some; as far as the system lets us.
void RaiseFileLimit() {
  constexpr rlim_t kFilesOfACall = 4, kOthers = 1024;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = nfs::kMaxServedExports * nfs::Storage::kMaxJobs * kFilesOfACall + kOthers;
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, wanted));
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::StatusOr<std::unique_ptr<nfs::ServedExports>> OpenExports(const NfsdOptions& options) {
  if (!options.key_file.empty()) return nfs::ServedExports::Open(options.exports, options.key_file);
  mkdir(kStateDirectory, 0700);
  return nfs::ServedExports::Open(options.exports, absl::StrCat(kStateDirectory, "/nfsd.key"));
}

absl::StatusOr<std::unique_ptr<nfs::RecordServer>> StartMount(nfs::MountCalls* calls,
                                                              uint16_t port) {
  return nfs::RecordServer::Listen(
      port, nfs::MountCalls::kMaxCallBytes,
      nfs::HandlerOf(nfs::MountCalls::kProgram,
                     [calls](nfs::ControlCall call) { calls->Serve(std::move(call)); }));
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
  return absl::OkStatus();
}

// What to type on a Linux client. Its kernel asks our rpcbind for MOUNT's port unless it is told.
std::string MountCommand(const NfsdOptions& options, const cm::Endpoint& at,
                         const nfs::Export& exported) {
  const std::string mount_port =
      options.rpcbind ? "" : absl::StrCat(",mountport=", options.mount_port);
  const std::string address = net::FormatAddress(at.address);
  return absl::StrFormat("mount -t nfs -o vers=3,proto=%s,port=%u%s,nolock %s:%s /mnt",
                         at.address.IsIpv4() ? "rdma" : "rdma6", at.port, mount_port,
                         at.address.IsIpv4() ? address : absl::StrCat("[", address, "]"),
                         exported.directory);
}

void Announce(const NfsdOptions& options, const std::vector<cm::Endpoint>& endpoints) {
  const engine::DeviceOptions& device = options.port.device;
  if (device.netdev.empty() && device.kernel_path.empty()) {
    std::fprintf(stderr,
                 "MOUNT is at the addresses of this host's kernel: --netdev or --kernel-path make "
                 "them the port's\n");
  }
  for (const nfs::Export& exported : options.exports) {
    std::fprintf(stderr, "%s, %s: %s\n", exported.directory.c_str(),
                 exported.read_only ? "read-only" : "read-write",
                 MountCommand(options, endpoints.front(), exported).c_str());
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
  nfs::MountCalls mount_calls(exports);
  const auto mount = StartMount(&mount_calls, static_cast<uint16_t>(options.mount_port));
  if (!mount.ok()) {
    return absl::Status(mount.status().code(),
                        absl::StrCat("MOUNT: ", mount.status().message(), "; see --mount-port"));
  }
  const std::vector<cm::Endpoint> endpoints =
      ServedAt(node, static_cast<uint16_t>(options.service_port));
  Registered registered;
  absl::Status status = Register(options, endpoints, &registered);
  if (status.ok()) Announce(options, endpoints);
  // Also when the ground goes from under it: nobody could reach it any more.
  while (!Interrupted() && status.ok()) {
    SleepUntilInterrupted(1000);
    status = node.device().port().CheckInterface();
  }
  return status;
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
      "Serves directories by NFS version 3 over RPC-over-RDMA, and MOUNT version 3 over the\n"
      "kernel's TCP, until SIGINT or SIGTERM. Needs root.");
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
  options.Switch("rpcbind",
                 "register both with the rpcbind of this host meanwhile: clients then\n"
                 "find MOUNT by themselves",
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
