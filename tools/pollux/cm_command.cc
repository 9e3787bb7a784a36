// pollux cm: what ucmatose and udaddy do, with one of those or with another pollux.
#include <chrono>
#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stack/base/address.h"
#include "tools/common/interrupt.h"
#include "tools/common/options.h"
#include "tools/common/peer_address.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/file_service/session.h"
#include "tools/pollux/cm_peer.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint16_t kUcmatosePort = 7471;
constexpr uint16_t kUdaddyPort = 7174;
// How long the port stays after the end: a wire in shared memory ends with it, and what lies there
// unread, the last message of CM or the last datagram.
constexpr int kCmLingerMs = 300;

struct CmOptions {
  PortOptions port;
  std::string server;
  std::string bind;
  std::string port_space = "tcp";
  uint64_t service_port = 0;  // the original's
  uint64_t connections = 1;
  uint64_t messages = 10;
  uint64_t bytes = 100;
  std::optional<uint8_t> type_of_service;
  uint64_t timeout_ms = 20'000;
  bool verbose = false;
  bool json = false;
};

absl::Status ParseTypeOfService(const std::string& text, std::optional<uint8_t>* target) {
  uint32_t value = 0;
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (!(hex ? absl::SimpleHexAtoi(text, &value) : absl::SimpleAtoi(text, &value)) || value > 255) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a number from 0 to 255"));
  }
  *target = static_cast<uint8_t>(value);
  return absl::OkStatus();
}

void Declare(Options& options, CmOptions* cm) {
  DeclarePortOptions(options, &cm->port);
  options.Text("server", "ADDR", "connect to it; without this option be the server", &cm->server);
  options.Text("bind", "ADDR", "which of the port's own addresses to use", &cm->bind);
  options.Text("ps", "SPACE", "port space: tcp, ib (as ucmatose) or udp (as udaddy) (tcp)",
               &cm->port_space);
  options.Number("service-port", "port of the service (7471; udp: 7174)", 1, 65535,
                 &cm->service_port);
  options.Number("connections", "connections at once, the same at both ends (1)", 1,
                 CmPeer::kMaxConnections, &cm->connections);
  options.Number("count", "messages each way on each connection (10)", 0, CmPeer::kMaxMessages,
                 &cm->messages);
  options.Number("size", "bytes of a message (100)", 0, CmPeer::kMaxBytes, &cm->bytes);
  options.Parsed("tos", "N", "type of service of the connections", [cm](const std::string& text) {
    return ParseTypeOfService(text, &cm->type_of_service);
  });
  options.Number("timeout-ms", "give up when nothing has come for so long (20000)", 1, 3'600'000,
                 &cm->timeout_ms);
  options.Switch("verbose", "print the CM exchange", &cm->verbose);
  options.Switch("json", "one JSON object on standard output instead of text", &cm->json);
  const std::pair<const char*, char> letters[] = {
      {"server", 's'},      {"bind", 'b'},  {"ps", 'P'},   {"service-port", 'p'},
      {"connections", 'c'}, {"count", 'C'}, {"size", 'S'}, {"tos", 't'},
  };
  for (const auto& [name, letter] : letters) options.Letter(name, letter);
}

absl::StatusOr<CmPeer::Options> Configure(const CmOptions& cm) {
  CmPeer::Options peer;
  if (cm.port_space == "udp") {
    peer.port_space = RDMA_PS_UDP;
  } else if (cm.port_space == "ib") {
    peer.port_space = RDMA_PS_IB;
  } else if (cm.port_space != "tcp") {
    return absl::InvalidArgumentError(
        absl::StrCat("--ps: '", cm.port_space, "' is not tcp, ib or udp"));
  }
  auto port = static_cast<uint16_t>(cm.service_port);
  if (port == 0) port = peer.port_space == RDMA_PS_UDP ? kUdaddyPort : kUcmatosePort;
  if (!cm.bind.empty()) {
    absl::StatusOr<Gid> local = pollux::ParseAddress(cm.bind);
    if (!local.ok()) return local.status();
    peer.local.address = *local;
  }
  peer.local.port = port;
  peer.connections = static_cast<uint32_t>(cm.connections);
  peer.messages = static_cast<uint32_t>(cm.messages);
  peer.bytes = static_cast<uint32_t>(cm.bytes);
  peer.type_of_service = cm.type_of_service;
  peer.idle_ns = cm.timeout_ms * 1'000'000;
  if (!cm.json) {
    peer.on_step = [](const std::string& words) { std::printf("cm: %s\n", words.c_str()); };
  }
  return peer;
}

// One end, from its making on the worker's core to its end there.
absl::Status RunPeer(const CmOptions& cm, CmPeer::Options options, Node& node,
                     CmPeer::Totals* totals) {
  std::promise<absl::Status> done;
  std::future<absl::Status> result = done.get_future();
  options.on_done = [&done](const absl::Status& status) { done.set_value(status); };
  const SocketAddress local = options.local;
  auto made = node.Run(
      [&] { return CmPeer::Start(&node.device().worker(), &node.manager(), std::move(options)); });
  if (!made.ok()) return made.status();
  if (cm.server.empty()) {
    std::fprintf(stderr, "listening on port %u\n", static_cast<unsigned>(local.port));
  }
  while (result.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready &&
         !Interrupted()) {
  }
  const bool ended = result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  const absl::Status status = ended ? result.get() : absl::CancelledError("interrupted");
  node.Run([&] {
    *totals = (*made)->totals();
    made->reset();
  });
  SleepUntilInterrupted(kCmLingerMs);
  return Explain(node, status);
}

Json Report(const CmOptions& cm, Node& node, const CmPeer::Totals& totals) {
  Json json = {{"role", cm.server.empty() ? "server" : "client"},
               {"port_space", cm.port_space},
               {"connections", cm.connections},
               {"connected", totals.connected},
               {"disconnected", totals.disconnected},
               {"messages_sent", totals.messages_sent},
               {"messages_received", totals.messages_received},
               {"message_bytes", cm.bytes}};
  Json counters = Json::object();
  node.Run([&] {
    node.manager().counters().Visit([&](std::string_view name, uint64_t value) {
      if (value != 0) counters[std::string(name)] = value;
    });
  });
  json["cm"] = counters;
  return json;
}

absl::Status Run(const CmOptions& cm, Json* json) {
  absl::StatusOr<CmPeer::Options> options = Configure(cm);
  if (!options.ok()) return options.status();
  std::vector<Gid> servers;
  if (!cm.server.empty()) {
    auto resolved = ResolvePeer(cm.server);
    if (!resolved.ok()) return resolved.status();
    servers = *std::move(resolved);
  }
  CatchInterrupts();
  absl::StatusOr<std::unique_ptr<Node>> started = StartNode(cm.port);
  if (!started.ok()) return started.status();
  Node& node = **started;
  if (!servers.empty()) {
    options->server = {.address = node.FirstReachable(servers), .port = options->local.port};
  }
  if (cm.verbose) PrintCmExchange(node);
  CmPeer::Totals totals;
  absl::Status status = RunPeer(cm, *std::move(options), node, &totals);
  *json = Report(cm, node, totals);
  node.StopPolling();
  if (!cm.json) {
    std::printf("test complete: %u of %u connections, %u messages sent, %u received\n",
                totals.connected, static_cast<unsigned>(cm.connections),
                static_cast<unsigned>(totals.messages_sent),
                static_cast<unsigned>(totals.messages_received));
  }
  return status;
}

}  // namespace

int CmCommand(int argc, char** argv) {
  CmOptions cm;
  Options options(
      "cm [-s ADDR] [options]",
      "Connects, exchanges messages and disconnects as ucmatose does, or with --ps udp\n"
      "as udaddy: interoperates with both.");
  Declare(options, &cm);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("cm", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  Json report = Json::object();
  const absl::Status status = Run(cm, &report);
  return Finish("cm", cm.json, status, report, "");
}

}  // namespace pollux::tools
