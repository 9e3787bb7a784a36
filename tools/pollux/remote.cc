#include "tools/pollux/remote.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oncrpc/rpcbind.h"
#include "stack/base/address.h"
#include "tools/common/interrupt.h"
#include "tools/common/peer_address.h"
#include "tools/common/report.h"
#include "tools/file_service/file_protocol.h"
#include "tools/file_service/session.h"

namespace pollux::tools {

void DeclareClientOptions(Options& options, ClientOptions* client) {
  DeclarePortOptions(options, &client->port);
  options.Number("timeout-ms", "how long to wait for the server (20000)", 1, 3'600'000,
                 &client->timeout_ms);
  options.Switch("verbose", "print the CM exchange", &client->verbose);
  options.Switch("json", "one JSON object on standard output instead of text", &client->json);
}

void DeclareRemoteOptions(Options& options, RemoteOptions* remote) {
  DeclareClientOptions(options, remote);
  options.Number("service-port", "port of the service (20049)", 1, 65535, &remote->service_port);
  options.Switch("rpcbind", "ask the server's rpcbind for the port, through this host's kernel",
                 &remote->rpcbind);
}

std::optional<std::string> AddressConflict(Node& node) {
  return node.Run([&node]() -> std::optional<std::string> {
    const ip::Interface& interface = node.device().worker().interface();
    if (!interface.conflict()) return std::nullopt;
    return absl::StrFormat("address %s is taken by the host with MAC %s; give another --address",
                           FormatAddress(interface.conflict()->address),
                           FormatMac(interface.conflict()->mac));
  });
}

absl::Status Explain(Node& node, absl::Status status) {
  const std::optional<std::string> conflict = AddressConflict(node);
  // Whoever claims the address of a command that did its work takes nothing from that.
  if (conflict && status.ok())
    node.log().Write(LogLevel::kWarning, "port", absl::StrCat("pollux: ", *conflict));
  // The command says what comes of this after all that its connections had to say.
  node.log().Flush();
  if (status.ok()) return status;
  if (conflict) return absl::AlreadyExistsError(*conflict);
  absl::Status interface = node.device().CheckInterface();
  return interface.ok() ? status : interface;
}

void AddCounters(Node& node, nlohmann::ordered_json* json) {
  const transport::Counters counters = node.Counters();
  (*json)["packets_sent"] = counters.sent_pkts;
  (*json)["retransmitted_packets"] = counters.retransmitted();
  AddCongestion(counters, json);
}

namespace {

absl::StatusOr<SocketAddress> ServiceAt(const Gid& server, const RemoteOptions& options) {
  if (!options.rpcbind) {
    return SocketAddress{.address = server, .port = static_cast<uint16_t>(options.service_port)};
  }
  auto rpcbind = oncrpc::RpcBind::At(server);
  if (!rpcbind.ok()) return rpcbind.status();
  return options.program == 0 ? rpcbind->Find(kFileProgram, kFileVersion, server)
                              : rpcbind->Find(options.program, options.version, server);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Remote>> Remote::Connect(const RemoteOptions& options,
                                                        const std::string& host, Cores cores) {
  const auto addresses = ResolvePeer(host);
  if (!addresses.ok()) return addresses.status();
  CatchInterrupts();
  std::unique_ptr<Remote> remote(new Remote());
  absl::StatusOr<std::unique_ptr<Node>> node = StartNode(options.port, cores);
  if (!node.ok()) return node.status();
  remote->node_ = *std::move(node);
  Node& started = *remote->node_;
  if (options.verbose) PrintCmExchange(started);
  remote->server_ = started.FirstReachable(*addresses);
  absl::StatusOr<SocketAddress> service = ServiceAt(remote->server_, options);
  if (!service.ok()) return service.status();
  auto client = ConnectClient(started, *service,
                              {.timeout_ms = static_cast<uint32_t>(options.timeout_ms),
                               .program = options.program,
                               .version = options.version,
                               .cancelled = &Interrupted});
  if (absl::Status status = Explain(started, client.status()); !status.ok()) return status;
  remote->client_ = *std::move(client);
  return remote;
}

Remote::~Remote() {
  if (node_ == nullptr) return;
  End(*node_, std::move(client_));
  node_->StopPolling();
}

}  // namespace pollux::tools
