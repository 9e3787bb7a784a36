// pollux demo: a file to a server and back over RDMA, server and client in this process, each on
// its own polled core and port.
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/core_to_core.h"
#include "tools/common/interrupt.h"
#include "tools/common/local_file.h"
#include "tools/common/node.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"
#include "tools/file_service/session.h"
#include "tools/file_service/transfer.h"
#include "tools/pollux/commands.h"

namespace pollux::tools {
namespace {

constexpr uint32_t kServerAddress = 0xC0000201;  // 192.0.2.1, for documentation (RFC 5737)
constexpr uint32_t kClientAddress = 0xC0000202;
constexpr uint16_t kServicePort = 20049;
constexpr uint32_t kConnectTimeoutMs = 20'000;
constexpr char kName[] = "demo";

struct DemoOptions {
  std::string file;
  uint64_t calls = 20'000;
  bool json = false;
  PortOptions port;
};

struct Outcome {
  FileClient::Negotiated negotiated;
  TransferResult put, get;
  LoadResult calls;
  transport::Counters client, server;
};

// A file that every machine has, of some MiB: this program itself.
std::string DefaultFile() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

class Demo {
 public:
  explicit Demo(const DemoOptions& options) : options_(options) {}

  absl::Status Run(Outcome* outcome);

 private:
  absl::Status StartNodes();
  absl::Status StartServer();
  absl::Status Connect();
  absl::Status Transfer(Outcome* outcome);
  void Stop();
  void Say(const std::string& line) const {
    if (!options_.json) std::fprintf(stderr, "%s\n", line.c_str());
  }

  const DemoOptions& options_;
  std::string directory_;
  std::unique_ptr<FileStore> store_;
  std::unique_ptr<Node> server_node_, client_node_;
  std::unique_ptr<FileServer> server_;
  std::unique_ptr<FileClient> client_;
};

absl::Status Demo::StartNodes() {
  if (absl::Status status = StartEal(options_.port.eal); !status.ok()) return status;
  auto capture = OpenCapture(options_.port);
  if (!capture.ok()) return capture.status();
  engine::DeviceOptions server = options_.port.device;
  engine::DeviceOptions client = options_.port.device;
  server.addresses = {InterfaceAddress::Ipv4(kServerAddress)};
  client.addresses = {InterfaceAddress::Ipv4(kClientAddress)};
  server.capture = client.capture = *std::move(capture);
  // Two wires' worth of luck, not the same one twice.
  client.impairment.seed += 1;
  absl::StatusOr<engine::Device::Pair> devices = engine::Device::OpenPair(server, client);
  if (!devices.ok()) return devices.status();
  const std::vector<int> cpus = UsableCpus();
  const bool two_cpus = cpus.size() >= 2;
  Node::Options at;
  // A wire inside one process: a lost CM message is missed sooner than after Linux's seconds. Both
  // sides may wait for their CPUs on a busy machine, and a message is sent 16 times only.
  at.cm.packet_lifetime = 10;      // 4 ms
  at.cm.cm_response_timeout = 16;  // 268 ms
  if (two_cpus) at.cpus = {cpus[0]};
  absl::StatusOr<std::unique_ptr<Node>> node = Node::Start(std::move(devices->first), at);
  if (!node.ok()) return node.status();
  server_node_ = *std::move(node);
  if (two_cpus) at.cpus = {cpus[1]};
  node = Node::Start(std::move(devices->second), at);
  if (!node.ok()) return node.status();
  client_node_ = *std::move(node);
  return absl::OkStatus();
}

absl::Status Demo::StartServer() {
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::FailedPreconditionError(
        "no directory for temporary files; set TMPDIR to one that can be written");
  }
  std::string pattern = (temporary / "pollux-demo-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("directory ", pattern));
  }
  directory_ = pattern;
  absl::StatusOr<std::unique_ptr<FileStore>> store = FileStore::Open(directory_);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  return server_node_->Run([this]() -> absl::Status {
    FileServer::Options options;
    options.port = kServicePort;
    absl::StatusOr<std::unique_ptr<FileServer>> server =
        FileServer::Listen(&server_node_->device().worker(), &server_node_->manager(), store_.get(),
                           std::move(options));
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  });
}

absl::Status Demo::Connect() {
  if (!options_.json) PrintCmExchange(*client_node_);
  auto client = ConnectClient(
      *client_node_, {.address = Gid::FromIpv4(kServerAddress), .port = kServicePort},
      FileClient::Options{.timeout_ms = kConnectTimeoutMs, .cancelled = &Interrupted});
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  return absl::OkStatus();
}

absl::Status Demo::Transfer(Outcome* outcome) {
  outcome->negotiated = client_node_->Run([this] { return client_->negotiated(); });
  Say(absl::StrFormat("\ninline thresholds: client to server %u bytes, server to client %u bytes\n",
                      outcome->negotiated.client_to_server_inline,
                      outcome->negotiated.server_to_client_inline));
  const auto progress = [this](const char* what, bool as_bytes) {
    return options_.json ? Progress() : ProgressBar(what, as_bytes);
  };
  outcome->put = PutFile(*client_node_, *client_, options_.file, kName, progress("put", true));
  if (!outcome->put.status.ok()) return outcome->put.status;
  const std::string back = directory_ + ".back";
  outcome->get = GetFile(*client_node_, *client_, kName, back, progress("get", true));
  unlink(back.c_str());
  if (!outcome->get.status.ok()) return outcome->get.status;
  outcome->calls =
      TimeNullCalls(*client_node_, *client_, {.count = options_.calls}, progress("calls", false));
  if (!outcome->calls.status.ok()) return outcome->calls.status;
  if (outcome->put.sha256 != outcome->get.sha256) {
    return absl::DataLossError(absl::StrCat("the file that came back differs: sent SHA-256 ",
                                            outcome->put.sha256, ", received ",
                                            outcome->get.sha256));
  }
  return absl::OkStatus();
}

void Demo::Stop() {
  if (client_node_ != nullptr) End(*client_node_, std::move(client_));
  if (server_node_ != nullptr) End(*server_node_, std::move(server_));
  for (Node* node : {client_node_.get(), server_node_.get()}) {
    if (node != nullptr) node->StopPolling();
  }
  // Each device may hold frames of the other's pool.
  for (Node* node : {client_node_.get(), server_node_.get()}) {
    if (node != nullptr) node->device().Close();
  }
  if (!directory_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
}

absl::Status Demo::Run(Outcome* outcome) {
  if (absl::Status status = SourceFile(options_.file).status(); !status.ok()) return status;
  const absl::Cleanup stop = [this] { Stop(); };
  if (absl::Status status = StartNodes(); !status.ok()) return status;
  if (absl::Status status = StartServer(); !status.ok()) return status;
  Say(absl::StrFormat("server %s:%u and client %s, each polled by its own thread, joined by rings",
                      FormatAddress(Gid::FromIpv4(kServerAddress)), kServicePort,
                      FormatAddress(Gid::FromIpv4(kClientAddress))));
  if (absl::Status status = Connect(); !status.ok()) return status;
  const absl::Status status = Transfer(outcome);
  outcome->client =
      client_node_->Run([this] { return client_node_->device().worker().counters(); });
  outcome->server =
      server_node_->Run([this] { return server_node_->device().worker().counters(); });
  return status;
}

absl::Status Print(const DemoOptions& options, const absl::Status& status, const Outcome& outcome) {
  const uint64_t packets = outcome.client.sent_pkts + outcome.server.sent_pkts;
  const uint64_t repeated = outcome.client.retransmitted() + outcome.server.retransmitted();
  const Histogram& latency = *outcome.calls.latency_ns;
  if (options.json) {
    nlohmann::ordered_json json;
    json["ok"] = status.ok();
    if (!status.ok()) json["error"] = std::string(status.message());
    json["file"] = options.file;
    json["file_bytes"] = outcome.put.bytes;
    json["sha256_sent"] = outcome.put.sha256;
    json["sha256_received"] = outcome.get.sha256;
    json["client_to_server_inline"] = outcome.negotiated.client_to_server_inline;
    json["server_to_client_inline"] = outcome.negotiated.server_to_client_inline;
    json["calls"] = outcome.calls.operations;
    json["calls_per_second"] = outcome.calls.PerSecond();
    json["latency_us"] = LatencyJson(latency);
    json["put_bytes_per_second"] = outcome.put.BytesPerSecond();
    json["get_bytes_per_second"] = outcome.get.BytesPerSecond();
    json["packets_sent"] = packets;
    json["retransmitted_packets"] = repeated;
    return PrintJson(json);
  }
  if (!status.ok()) return absl::OkStatus();
  return PrintOut(
      "\n" + Table({{"file", absl::StrCat(options.file, ", ", Bytes(outcome.put.bytes))},
                    {"put", Rate(outcome.put.BytesPerSecond())},
                    {"get", Rate(outcome.get.BytesPerSecond())},
                    {"NULL calls", Grouped(outcome.calls.operations)},
                    {"calls per second", Grouped(static_cast<uint64_t>(outcome.calls.PerSecond()))},
                    {"latency median", Microseconds(latency.Percentile(0.5))},
                    {"latency 99 %", Microseconds(latency.Percentile(0.99))},
                    {"latency 99.9 %", Microseconds(latency.Percentile(0.999))},
                    {"packets sent", Grouped(packets)},
                    {"retransmitted", Grouped(repeated)},
                    {"SHA-256 sent", outcome.put.sha256},
                    {"SHA-256 received", outcome.get.sha256}}));
}

}  // namespace

int DemoCommand(int argc, char** argv) {
  DemoOptions demo;
  Options options("demo [options]",
                  "Starts a server and a client inside this process, each on its own polled core\n"
                  "and port, joined by rings; connects them by RDMA CM, sends a file through\n"
                  "RPC-over-RDMA chunks, fetches it back, compares, and times small calls.");
  options.Text("file", "FILE", "the file to send (this program)", &demo.file);
  options.Number("calls", "NULL calls to time (20000)", 1, 1'000'000'000, &demo.calls);
  DeclareWireOptions(options, &demo.port);
  options.Switch("json", "one JSON object on standard output instead of text", &demo.json);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("demo", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  if (demo.file.empty()) demo.file = DefaultFile();
  CatchInterrupts();
  Outcome outcome;
  absl::Status status = Demo(demo).Run(&outcome);
  const uint64_t repeated = outcome.client.retransmitted() + outcome.server.retransmitted();
  if (status.ok() && demo.port.device.impairment.loss > 0 && repeated == 0) {
    status = absl::InternalError(
        "--impair asks for loss, but nothing was retransmitted; send a larger file or raise the "
        "loss");
  }
  status.Update(Print(demo, status, outcome));
  return status.ok() ? kExitOk : Fail("demo", status);
}

}  // namespace pollux::tools
