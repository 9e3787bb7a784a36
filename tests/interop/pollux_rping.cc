// The ping-pong of rdma-core's rping by the native API, with the original or with another of these.
// Against `pollux run -- rping` it serves many clients on several cores and prints what it counted.
// usage: pollux_rping -c -a ADDR [options] | pollux_rping -s [-P] [options]
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "stack/base/address.h"
#include "tests/interop/peer/rping.h"
#include "tests/interop/peer/rping_server.h"
#include "tools/common/interrupt.h"
#include "tools/common/options.h"
#include "tools/common/peer_address.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/file_service/session.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

struct RpingOptions {
  PortOptions port;
  bool client = false;
  bool server = false;
  bool persistent = false;
  std::string address;
  uint64_t service_port = 7174;
  uint64_t count = 0;
  uint64_t bytes = 64;
  bool verbose = false;
  bool debug = false;
  bool json = false;
};

// How long a server stays after its client has left: a wire in shared memory ends with it, and what
// lies there unread, the answer to the client's DREQ too.
constexpr int kLingerMs = 300;

absl::Status CheckOptions(const RpingOptions& options) {
  if (options.client == options.server) {
    return absl::InvalidArgumentError("client or server? give either -c or -s");
  }
  if (options.client && options.address.empty()) {
    return absl::InvalidArgumentError("which server? give -a ADDR");
  }
  if (options.client && options.persistent) {
    return absl::InvalidArgumentError("--persistent is for servers (-s)");
  }
  return absl::OkStatus();
}

// What a wire made bad on purpose did, at the queues of all cores.
Json ImpairedJson(Node& node) {
  Json json;
  node.RunOnEach([&](uint32_t core) {
    const io::Impairment* impairment = node.device().impairment(core);
    if (impairment == nullptr) return;
    for (const auto& [way, counted] : {std::pair("sent", &impairment->send_counters()),
                                       std::pair("received", &impairment->receive_counters())}) {
      for (const auto& [name, value] : {std::pair("lost", counted->lost),
                                        {"duplicated", counted->duplicated},
                                        {"reordered", counted->reordered},
                                        {"corrupted", counted->corrupted}}) {
        Json& sum = json[way][name];
        sum = value + (sum.is_null() ? 0 : sum.get<uint64_t>());
      }
    }
  });
  return json;
}

// What it cost.
Json CountersJson(Node& node) {
  const transport::Counters counters = node.Counters();
  Json json = {{"packets_sent", counters.sent_pkts},
               {"packets_received", counters.rcvd_pkts},
               {"retransmitted_packets", counters.retransmitted()},
               {"duplicate_request", counters.duplicate_request},
               {"out_of_seq_request", counters.out_of_seq_request},
               {"sent_seq_nak", counters.sent_seq_nak},
               {"rcvd_seq_err", counters.rcvd_seq_err},
               {"bad_icrc", counters.drop(transport::Drop::kBadIcrc)}};
  AddCongestion(counters, &json);
  if (Json impaired = ImpairedJson(node); !impaired.is_null()) json["impaired"] = impaired;
  return json;
}

Rping::Options Configure(const RpingOptions& options) {
  Rping::Options rping;
  rping.count = options.count;
  rping.bytes = static_cast<uint32_t>(options.bytes);
  if (options.verbose && !options.json) {
    rping.on_ping = [server = options.server](const std::string& text) {
      std::printf("%sping data: %s\n", server ? "server " : "", text.c_str());
    };
  }
  if (options.debug) {
    rping.on_step = [](const std::string& words) { std::fprintf(stderr, "%s\n", words.c_str()); };
  }
  return rping;
}

// One end, from its making on the worker's core to its end there.
absl::Status RunRping(const RpingOptions& options, const SocketAddress& endpoint, Node& node,
                      uint64_t* pings) {
  std::promise<absl::Status> done;
  std::future<absl::Status> result = done.get_future();
  auto made = node.Run([&] {
    Rping::Options rping = Configure(options);
    rping.on_done = [&done](const absl::Status& status) { done.set_value(status); };
    engine::Worker* worker = &node.device().worker();
    return options.client ? Rping::Connect(worker, &node.manager(), endpoint, std::move(rping))
                          : Rping::Listen(worker, &node.manager(), endpoint, std::move(rping));
  });
  if (!made.ok()) return made.status();
  if (options.server) {
    std::fprintf(stderr, "listening on port %u\n", static_cast<unsigned>(options.service_port));
  }
  const auto tick = std::chrono::milliseconds(50);
  while (result.wait_for(tick) != std::future_status::ready && !Interrupted()) {
  }
  absl::Status status;
  if (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    node.Run([&] { (*made)->Stop(); });
    result.wait_for(std::chrono::seconds(kDisconnectSeconds));
    status = absl::CancelledError("interrupted");
  } else {
    status = result.get();
    if (options.server && status.ok()) SleepUntilInterrupted(kLingerMs);
  }
  node.Run([&] {
    *pings = (*made)->pings();
    made->reset();
  });
  return Explain(node, status);
}

struct ServedClients {
  uint64_t clients = 0;
  uint64_t failed = 0;  // of those
  uint64_t pings = 0;
};

// Of whom to connect to, or the one to listen at: zeros, of either version, stand for any address.
absl::StatusOr<std::vector<Gid>> AddressesOf(const RpingOptions& options) {
  if (options.client) return ResolvePeer(options.address);
  if (options.address.empty()) return std::vector<Gid>{Gid()};
  absl::StatusOr<Gid> address = pollux::ParseAddress(options.address);
  if (!address.ok()) return address.status();
  return std::vector<Gid>{*address == Gid::FromIpv4(0) ? Gid() : *address};
}

using RpingServers = std::vector<std::unique_ptr<RpingServer>>;

void DisconnectClients(Node& node, const RpingServers& servers) {
  constexpr int kTickMs = 10;
  node.RunOnEach([&](uint32_t core) { servers[core]->Shutdown(); });
  for (int ms = 0; ms < kDisconnectSeconds * 1000; ms += kTickMs) {
    size_t clients = 0;
    node.RunOnEach([&](uint32_t core) { clients += servers[core]->clients(); });
    if (clients == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
  }
}

// One server a core, until interrupted.
absl::Status ServeMany(const RpingOptions& options, const SocketAddress& local, Node& node,
                       ServedClients* served) {
  RpingServers servers(node.cores());
  std::vector<uint64_t> failed(node.cores());
  const absl::Cleanup end = [&] { node.RunOnEach([&](uint32_t core) { servers[core].reset(); }); };
  absl::Status status;
  node.RunOnEach([&](uint32_t core) {
    RpingServer::Options serve;
    serve.local = local;
    serve.of_client = [&options] { return Configure(options); };
    serve.on_end = [&failed, core](const absl::Status& ended) {
      if (ended.ok() || Interrupted()) return;
      ++failed[core];
      std::fprintf(stderr, "a client: %s\n", std::string(ended.message()).c_str());
    };
    auto listening = RpingServer::Listen(&node.worker(core), &node.manager(core), std::move(serve));
    status.Update(listening.status());
    if (listening.ok()) servers[core] = *std::move(listening);
  });
  if (!status.ok()) return status;
  std::fprintf(stderr, "listening on port %u\n", static_cast<unsigned>(options.service_port));
  status = StayUntilInterrupted(node, {.name = "rping"});
  DisconnectClients(node, servers);
  node.RunOnEach([&](uint32_t core) {
    served->clients += servers[core]->served();
    served->pings += servers[core]->pings();
    served->failed += failed[core];
  });
  return Explain(node, status);
}

int RpingMain(int argc, char** argv) {
  RpingOptions rping;
  Options options(
      "rping -c -a ADDR [options] | rping -s [-P] [options]",
      "Ping-pong by RDMA READ and WRITE with rdma-core's rping, or with another of these.\n"
      "The client always compares what comes back with what it sent.");
  DeclarePortOptions(options, &rping.port);
  options.Switch("client", "connect and ping", &rping.client);
  options.Switch("server",
                 "serve one client, then end; one that has fallen silent gives\n"
                 "way to the next",
                 &rping.server);
  options.Switch("persistent",
                 "serve any number of clients at once, on all --cores, until\n"
                 "interrupted (-s)",
                 &rping.persistent);
  options.Text("server-address", "ADDR",
               "the server's address; with -s which of the\n"
               "port's own to listen at (any)",
               &rping.address);
  options.Number("service-port", "the server's port (7174)", 1, 65535, &rping.service_port);
  options.Number("count", "pings (until interrupted)", 1, 1'000'000'000, &rping.count);
  options.Number("size", "bytes of a ping (64); the server takes any", Rping::kMinBytes,
                 Rping::kMaxBytes, &rping.bytes);
  options.Switch("verbose", "print each ping's data", &rping.verbose);
  options.Switch("debug", "print each step and the CM exchange", &rping.debug);
  options.Switch("json", "one JSON object on standard output instead of text", &rping.json);
  const struct {
    const char* name;
    char letter;
  } kLetters[] = {{"client", 'c'},         {"server", 's'},       {"persistent", 'P'},
                  {"server-address", 'a'}, {"service-port", 'p'}, {"count", 'C'},
                  {"size", 'S'},           {"verbose", 'v'},      {"debug", 'd'}};
  for (const auto& [name, letter] : kLetters) options.Letter(name, letter);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("rping", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  if (absl::Status status = CheckOptions(rping); !status.ok()) return Fail("rping", status);
  const auto addresses = AddressesOf(rping);
  if (!addresses.ok()) return Finish("rping", rping.json, addresses.status(), {}, "");
  CatchInterrupts();
  absl::StatusOr<std::unique_ptr<Node>> node =
      StartNode(rping.port, rping.persistent ? Cores::kMany : Cores::kOne);
  if (!node.ok()) return Finish("rping", rping.json, node.status(), {}, "");
  if (rping.debug) PrintCmExchange(**node);
  const SocketAddress endpoint = {.address = (*node)->FirstReachable(*addresses),
                                  .port = static_cast<uint16_t>(rping.service_port)};
  ServedClients served;
  const absl::Status status = rping.persistent ? ServeMany(rping, endpoint, **node, &served)
                                               : RunRping(rping, endpoint, **node, &served.pings);
  Json json = {{"pings", served.pings}};
  if (rping.persistent) {
    json["clients"] = served.clients;
    json["failed_clients"] = served.failed;
  }
  json.update(CountersJson(**node));
  (*node)->StopPolling();
  return Finish("rping", rping.json, status, json, "");
}

}  // namespace
}  // namespace pollux::tools

int main(int argc, char** argv) { return pollux::tools::RpingMain(argc, argv); }
