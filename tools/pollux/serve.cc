// pollux serve: a directory over RPC-over-RDMA, until interrupted.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/transport/diagnostics/counters.h"
#include "tools/common/interrupt.h"
#include "tools/common/listen_addresses.h"
#include "tools/common/log_format.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/registration.h"
#include "tools/common/report.h"
#include "tools/file_service/file_protocol.h"
#include "tools/file_service/session.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/file_servers.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

constexpr uint64_t kMaxConnections = 10'000;

struct ServeOptions {
  PortOptions port;
  std::string root;
  uint64_t service_port = 20049;
  bool read_only = false;
  uint64_t max_connections = FileServers::Options{}.max_connections;
  uint64_t max_connections_per_client = 0;
  bool rpcbind = false;
  bool json = false;
};

// What came of it.
struct ServedFiles {
  uint64_t calls = 0;
  transport::Counters counters;
};

absl::Status Serve(const ServeOptions& options, ServedFiles* served) {
  if (options.root.empty()) {
    return absl::InvalidArgumentError("which directory? give --root DIR");
  }
  if (auto store = FileStore::Open(options.root); !store.ok()) return store.status();
  absl::StatusOr<std::unique_ptr<Node>> started = StartNode(options.port, Cores::kMany);
  if (!started.ok()) return started.status();
  Node& node = **started;
  const auto port = static_cast<uint16_t>(options.service_port);
  auto servers = FileServers::Listen(
      &node, options.root,
      {.port = port,
       .read_only = options.read_only,
       .max_connections = static_cast<uint32_t>(options.max_connections),
       .max_connections_per_client = static_cast<uint32_t>(options.max_connections_per_client),
       .log = [&node](const std::string& line) {
         node.log().Write(LogLevel::kInfo, "serve", line);
       }});
  if (!servers.ok()) return servers.status();
  SleepUntilInterrupted(kProbeMs);
  if (const auto conflict = AddressConflict(node)) return absl::AlreadyExistsError(*conflict);
  const std::vector<SocketAddress> endpoints = ListenAddresses(node, port);
  std::unique_ptr<Registration> registration;
  if (options.rpcbind) {
    auto registered = Registration::Make(kFileProgram, kFileVersion, endpoints);
    if (!registered.ok()) return registered.status();
    registration = *std::move(registered);
  }
  WriteLog(LogLevel::kInfo, "serve",
           absl::StrCat("serving ", options.root, " at ", ListOf(endpoints), " on ",
                        Place(options.port.device)));
  const absl::Status status = StayUntilInterrupted(node, {.name = "serve"});
  registration.reset();
  served->calls = (*servers)->calls();
  (*servers)->Disconnect();
  served->counters = node.Counters();
  return status;
}

}  // namespace

int ServeCommand(int argc, char** argv) {
  ServeOptions serve;
  Options options("serve [options]",
                  "Serves the files of a directory over RPC-over-RDMA, until SIGINT or SIGTERM.");
  DeclarePortOptions(options, &serve.port);
  options.Text("root", "DIR", "the directory to serve", &serve.root);
  options.Number("service-port", "port to listen on (20049)", 1, 65535, &serve.service_port);
  options.Switch("read-only", "refuse CREATE and WRITE", &serve.read_only);
  options.Number("max-connections", "connections of all clients together, on each core (1024)", 1,
                 kMaxConnections, &serve.max_connections);
  options.Number(
      "max-connections-per-client",
      "connections per address (0: one more only while the address has\nfewer than are still free)",
      0, kMaxConnections, &serve.max_connections_per_client);
  options.Switch("rpcbind", "register with this host's rpcbind while it runs (netids rdma, rdma6)",
                 &serve.rpcbind);
  DeclareLogOption(options);
  options.Switch("json", "at the end, one JSON object on standard output", &serve.json);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("serve", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  CatchInterrupts(ClosedPipe::kInterrupts, Hangup::kReloads);
  ServedFiles served;
  absl::Status status = Serve(serve, &served);
  if (serve.json) {
    nlohmann::ordered_json json;
    json["ok"] = status.ok();
    if (!status.ok()) json["error"] = std::string(status.message());
    json["calls"] = served.calls;
    json["packets_sent"] = served.counters.sent_pkts;
    json["retransmitted_packets"] = served.counters.retransmitted();
    AddCongestion(served.counters, &json);
    status.Update(PrintJson(json));
  }
  return status.ok() ? kExitOk : Fail("serve", status);
}

}  // namespace pollux::tools
