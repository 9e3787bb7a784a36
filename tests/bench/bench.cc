// The benchmark: what the device can do, what Pollux does over it, the ratio of the two, in one
// run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/engine/eal.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/device_load.h"
#include "tests/bench/many_pairs.h"
#include "tests/bench/memory_cost.h"
#include "tests/bench/tirpc_load.h"
#include "tests/bench/verbs_load.h"
#include "tests/bench/wires.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"
#include "tools/node.h"
#include "tools/options.h"
#include "tools/session.h"
#include "tools/transfer.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kSmall = 64;
constexpr uint32_t kBulk = 1u << 20;
constexpr uint32_t kWindow = 128;

// One figure, measured once a pass.
struct Series {
  std::string unit;
  std::vector<double> values;

  double Median() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
  double Low() const { return *std::min_element(values.begin(), values.end()); }
  double High() const { return *std::max_element(values.begin(), values.end()); }
};
using Figures = std::map<std::string, Series>;

struct Target {
  const char* name;
  const char* above;  // figure / denominator
  const char* below;
  double at_least;
  bool inverse;  // of times: smaller is better, `at_least` is a most
};
// From the project's targets: ratios within one run.
constexpr Target kTargets[] = {
    {"64 B SEND stream / +work", "SEND 64 B stream", "+work 64 B stream", 0.5, false},
    {"1 MiB WRITE / +work", "WRITE 1 MiB", "+work bulk", 0.70, false},
    {"1 MiB READ / WRITE", "READ 1 MiB", "WRITE 1 MiB", 0.85, false},
    {"64 B SEND round trip / +work", "SEND 64 B round trip", "+work 64 B round trip", 1.7, true},
    {"10,000 connections / 1", "SEND 64 B, 10000 connections", "SEND 64 B, 1 connections", 0.67,
     false},
    {"10,000 connections / 1, by 16", "SEND 64 B, 10000 connections, by 16",
     "SEND 64 B, 1 connections, by 16", 0.67, false},
    {"NULL RPC rate / +work echo", "NULL RPC rate", "+work 64 B echo", 0.4, false},
    {"NULL RPC round trip / +work", "NULL RPC round trip", "+work 64 B round trip", 2.4, true},
    {"libtirpc NULL / TCP", "libtirpc NULL", "libtirpc TCP NULL", 1.0, true},
    {"libtirpc read 4 KiB / TCP", "libtirpc read 4 KiB", "libtirpc TCP read 4 KiB", 1.0, true},
    {"libtirpc write 4 KiB / TCP", "libtirpc write 4 KiB", "libtirpc TCP write 4 KiB", 1.0, true},
    {"libtirpc read 1 MiB / TCP", "libtirpc read 1 MiB", "libtirpc TCP read 1 MiB", 1.0, true},
    {"libtirpc write 1 MiB / TCP", "libtirpc write 1 MiB", "libtirpc TCP write 1 MiB", 1.0, true},
};

void Record(Figures& figures, const std::string& name, const char* unit, double value) {
  figures[name].unit = unit;
  figures[name].values.push_back(value);
}

absl::Status DevicePass(Wire wire, double scale, Figures& figures) {
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
  if (!opened.ok()) return opened.status();
  engine::Device& a = *opened->first;
  engine::Device& b = *opened->second;
  const auto n = [scale](double count) { return static_cast<uint64_t>(count * scale); };
  const auto ends = [&] { return std::make_pair(BareEnd(a), BareEnd(b)); };
  for (const Work work : {Work::kRaw, Work::kPacket}) {
    const std::string name = work == Work::kRaw ? "raw" : "+work";
    auto [x, y] = ends();
    Record(figures, name + " 64 B round trip", "us",
           RoundTripNs(x, y, work, kSmall, n(200'000)) * 1e-3);
    Record(figures, name + " 64 B stream", "M/s",
           StreamPerSecond(x, y, work, kSmall, n(2'000'000)) * 1e-6);
    Record(figures, name + " 64 B echo", "M/s",
           EchoPerSecond(x, y, work, kSmall, n(1'000'000), kWindow) * 1e-6);
    const uint32_t mtu = 128u << a.interface().active_mtu();
    Record(figures, name + " bulk", "Gb/s",
           StreamPerSecond(x, y, work, mtu, n(200'000)) * mtu * 8e-9);
  }
  {
    absl::StatusOr<std::unique_ptr<VerbsPair>> pair = VerbsPair::Connect(&a, &b);
    if (!pair.ok()) return pair.status();
    VerbsPair& verbs = **pair;
    Record(figures, "SEND 64 B round trip", "us", verbs.SendRoundTripNs(kSmall, n(100'000)) * 1e-3);
    Record(figures, "SEND 64 B stream", "M/s",
           verbs.PerSecond(IBV_WR_SEND, kSmall, n(1'000'000), kWindow) * 1e-6);
    Record(figures, "WRITE 64 B stream", "M/s",
           verbs.PerSecond(IBV_WR_RDMA_WRITE, kSmall, n(1'000'000), kWindow) * 1e-6);
    Record(figures, "WRITE 1 MiB", "Gb/s",
           verbs.PerSecond(IBV_WR_RDMA_WRITE, kBulk, n(1'000), 4) * kBulk * 8e-9);
    Record(figures, "READ 1 MiB", "Gb/s",
           verbs.PerSecond(IBV_WR_RDMA_READ, kBulk, n(1'000), 4) * kBulk * 8e-9);
    Record(figures, "retransmitted packets", "", static_cast<double>(verbs.retransmitted()));
  }
  CloseWire(*opened);
  return absl::OkStatus();
}

// As many connections as are named, and which messages go round them. A pass sends each figure over
// every number, one right after the other.
constexpr uint32_t kManyPairs[] = {1, 100, 10'000};

absl::Status ScalePass(Wire wire, double scale, Figures& figures) {
  for (const uint32_t count : kManyPairs) {
    absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
    if (!opened.ok()) return opened.status();
    {
      absl::StatusOr<std::unique_ptr<ManyPairs>> pairs =
          ManyPairs::Connect(opened->first.get(), opened->second.get(), count);
      if (!pairs.ok()) return pairs.status();
      const auto messages = static_cast<uint64_t>(1'000'000 * scale);
      for (const uint32_t burst : {1u, 16u}) {
        Record(figures,
               absl::StrFormat("SEND 64 B, %u connections%s", count, burst == 1 ? "" : ", by 16"),
               "M/s", (*pairs)->SendsPerSecond(kSmall, messages, kWindow, burst) * 1e-6);
      }
      Record(figures, "retransmitted packets", "", static_cast<double>((*pairs)->retransmitted()));
    }
    CloseWire(*opened);
  }
  return absl::OkStatus();
}

// The file service between two polled cores: its NULL calls and its megabytes.
class RpcPass {
 public:
  absl::Status Run(Wire wire, double scale, Figures& figures) {
    absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
    if (!opened.ok()) return opened.status();
    absl::Status status = Start(*std::move(opened));
    if (status.ok()) status = Measure(scale, figures);
    Stop();
    return status;
  }

 private:
  absl::Status Start(engine::Device::Pair devices) {
    tools::Node::Options at;
    at.yield_after_idle = 0;
    at.cpu = 0;
    auto server = tools::Node::Start(std::move(devices.first), at);
    if (!server.ok()) return server.status();
    server_node_ = *std::move(server);
    at.cpu = std::thread::hardware_concurrency() >= 2 ? 1 : 0;
    auto client = tools::Node::Start(std::move(devices.second), at);
    if (!client.ok()) return client.status();
    client_node_ = *std::move(client);
    // In memory: the disk is not what is measured.
    std::string pattern = "/dev/shm/pollux-bench-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) return absl::ErrnoToStatus(errno, pattern);
    directory_ = pattern;
    auto store = tools::FileStore::Open(directory_);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    absl::Status status = server_node_->Run([this]() -> absl::Status {
      auto listening =
          tools::FileServer::Listen(&server_node_->device().worker(), &server_node_->manager(),
                                    store_.get(), tools::FileServer::Options());
      if (!listening.ok()) return listening.status();
      server_ = *std::move(listening);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    auto connected = tools::ConnectClient(
        *client_node_, {.address = server_node_->device().gid(), .port = 20049}, {});
    if (!connected.ok()) return connected.status();
    client_ = *std::move(connected);
    return absl::OkStatus();
  }

  absl::Status Measure(double scale, Figures& figures) {
    const auto n = [scale](double count) { return static_cast<uint64_t>(count * scale) + 1; };
    const auto one = TimeNullCalls(*client_node_, *client_, n(100'000), 1, nullptr);
    if (!one.status.ok()) return one.status;
    Record(figures, "NULL RPC round trip", "us",
           one.seconds / static_cast<double>(one.calls) * 1e6);
    const auto many = TimeNullCalls(*client_node_, *client_, n(400'000), kWindow, nullptr);
    if (!many.status.ok()) return many.status;
    Record(figures, "NULL RPC rate", "M/s", many.CallsPerSecond() * 1e-6);
    const auto write = TimeBlocks(*client_node_, *client_, true, "bench", n(500), nullptr);
    if (!write.status.ok()) return write.status;
    Record(figures, "RPC write 1 MiB", "Gb/s", write.BytesPerSecond() * 8e-9);
    const auto read = TimeBlocks(*client_node_, *client_, false, "bench", n(500), nullptr);
    if (!read.status.ok()) return read.status;
    Record(figures, "RPC read 1 MiB", "Gb/s", read.BytesPerSecond() * 8e-9);
    return absl::OkStatus();
  }

  void Stop() {
    if (client_node_ != nullptr) tools::End(*client_node_, std::move(client_));
    if (server_node_ != nullptr) tools::End(*server_node_, std::move(server_));
    for (tools::Node* node : {client_node_.get(), server_node_.get()}) {
      if (node != nullptr) node->StopPolling();
    }
    for (tools::Node* node : {client_node_.get(), server_node_.get()}) {
      if (node != nullptr) node->device().Close();
    }
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

  std::string directory_;
  std::unique_ptr<tools::FileStore> store_;
  std::unique_ptr<tools::Node> server_node_, client_node_;
  std::unique_ptr<tools::FileServer> server_;
  std::unique_ptr<tools::FileClient> client_;
};

// One CLIENT's calls, one after the other, over Pollux and over TCP by loopback.
absl::Status TirpcPass(Wire wire, double scale, Figures& figures) {
  const auto calls = static_cast<uint64_t>(10'000 * scale);
  const auto record = [&figures](const std::string& name, const TirpcTimes& times) {
    Record(figures, name + " NULL", "us", times.null_s * 1e6);
    Record(figures, name + " read 4 KiB", "us", times.read_4k_s * 1e6);
    Record(figures, name + " write 4 KiB", "us", times.write_4k_s * 1e6);
    Record(figures, name + " read 1 MiB", "us", times.read_1m_s * 1e6);
    Record(figures, name + " write 1 MiB", "us", times.write_1m_s * 1e6);
  };
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<TirpcTimes> pollux = TimePollux(*std::move(opened), calls);
  if (!pollux.ok()) return pollux.status();
  record("libtirpc", *pollux);
  Record(figures, "libtirpc copies, client", "B/B", pollux->client_copies);
  Record(figures, "libtirpc copies, server", "B/B", pollux->server_copies);
  const absl::StatusOr<TirpcTimes> tcp = TimeTcp(calls);
  if (!tcp.ok()) return tcp.status();
  record("libtirpc TCP", *tcp);
  return absl::OkStatus();
}

// Ratios pass by pass, so that a machine that changes its pace in between spoils none.
double MedianRatio(const Figures& figures, const Target& target) {
  Series ratios;
  const Series& above = figures.at(target.above);
  const Series& below = figures.at(target.below);
  for (size_t i = 0; i < above.values.size(); ++i) {
    ratios.values.push_back(above.values[i] / below.values[i]);
  }
  return ratios.Median();
}

void Print(Wire wire, const Figures& figures, bool json, nlohmann::ordered_json& out) {
  nlohmann::ordered_json& node = out[WireName(wire)];
  if (!json) {
    std::printf("\n%s\n%-32s%12s%12s%12s\n", WireName(wire), "", "median", "low", "high");
  }
  for (const auto& [name, series] : figures) {
    node["figures"][name] = {{"unit", series.unit},
                             {"median", series.Median()},
                             {"low", series.Low()},
                             {"high", series.High()}};
    if (json) continue;
    std::printf("%-32s%12.3f%12.3f%12.3f  %s\n", name.c_str(), series.Median(), series.Low(),
                series.High(), series.unit.c_str());
  }
  if (!json) std::printf("\n%-32s%12s%12s\n", "ratio", "median", "at least");
  for (const Target& target : kTargets) {
    const double ratio = MedianRatio(figures, target);
    const bool met = target.inverse ? ratio <= target.at_least : ratio >= target.at_least;
    node["ratios"][target.name] = {{"median", ratio},
                                   {target.inverse ? "at_most" : "at_least", target.at_least},
                                   {"met", met}};
    if (json) continue;
    std::printf("%-32s%12.2f%12s  %s\n", target.name, ratio,
                absl::StrFormat("%s%.2f", target.inverse ? "<= " : ">= ", target.at_least).c_str(),
                met ? "met" : "not met");
  }
}

int PrintMemory(bool json) {
  nlohmann::ordered_json out;
  if (!json) std::printf("%-36s%12s%12s\n", "bytes of one", "measured", "at most");
  for (const MemoryCost& cost : MeasureMemoryCosts()) {
    out["memory"][cost.what] = {{"bytes", cost.bytes}, {"at_most", cost.most}};
    if (!json) std::printf("%-36s%12.0f%12.0f\n", cost.what.c_str(), cost.bytes, cost.most);
  }
  if (json) std::printf("%s\n", out.dump().c_str());
  return tools::kExitOk;
}

int Main(int argc, char** argv) {
  uint64_t passes = 5;
  double scale = 1;
  bool json = false, ring_only = false, memory = false;
  tools::Options options("bench [options]   (tools/dev bench)",
                         "Measures, pass by pass and interleaved, the bare device, the least work\n"
                         "that any RoCE stack does (+work), and Pollux over the same device.");
  options.Number("passes", "passes, of which the median is taken (5)", 1, 1000, &passes);
  options.Real("scale", "length of each measurement (1)", 0.001, 1000, &scale);
  options.Switch("ring-only", "leave out net_memif", &ring_only);
  options.Switch("memory", "instead: what a queue pair, a region, a connection cost in bytes",
                 &memory);
  options.Switch("json", "one JSON object on standard output instead of tables", &json);
  const auto operands = options.Parse(argc, argv, 0, 0);
  if (!operands.ok()) {
    std::fprintf(stderr, "bench: %s\n", std::string(operands.status().message()).c_str());
    return tools::kExitUsage;
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return tools::kExitOk;
  }
  absl::Status status = engine::InitEal({.memory_mib = 1024});
  if (status.ok() && memory) return PrintMemory(json);
  std::map<Wire, Figures> figures;
  std::vector<Wire> wires = {Wire::kRing};
  if (!ring_only) wires.push_back(Wire::kMemif);
  for (uint64_t pass = 0; pass < passes && status.ok(); ++pass) {
    for (const Wire wire : wires) {
      std::fprintf(stderr, "pass %u of %u, %s\n", static_cast<unsigned>(pass + 1),
                   static_cast<unsigned>(passes), WireName(wire));
      Record(figures[wire], "core to core, before", "ns", CoreToCoreNs());
      status = DevicePass(wire, scale, figures[wire]);
      if (status.ok()) status = ScalePass(wire, scale, figures[wire]);
      if (status.ok()) status = RpcPass().Run(wire, scale, figures[wire]);
      if (status.ok()) status = TirpcPass(wire, scale, figures[wire]);
      if (!status.ok()) break;
      Record(figures[wire], "core to core, after", "ns", CoreToCoreNs());
    }
  }
  if (!status.ok()) {
    std::fprintf(stderr, "bench: %s\n", std::string(status.message()).c_str());
    return tools::kExitFailure;
  }
  nlohmann::ordered_json out;
  out["passes"] = passes;
  for (const Wire wire : wires) Print(wire, figures[wire], json, out);
  if (json) std::printf("%s\n", out.dump().c_str());
  return tools::kExitOk;
}

}  // namespace
}  // namespace pollux::bench

int main(int argc, char** argv) { return pollux::bench::Main(argc, argv); }
