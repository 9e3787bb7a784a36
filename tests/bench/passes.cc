#include "tests/bench/passes.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/device_load.h"
#include "tests/bench/many_pairs.h"
#include "tests/bench/peer_load.h"
#include "tests/bench/rpc_pair.h"
#include "tests/bench/shared_port.h"
#include "tests/bench/targets.h"
#include "tests/bench/tirpc_load.h"
#include "tests/bench/verbs_load.h"
#include "tools/bench/chart.h"
#include "tools/bench/core_to_core.h"
#include "tools/file_service/transfer.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kSmall = 64;
constexpr uint32_t kBulkBytes = 1u << 20;
constexpr uint32_t kWindow = 128;

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
    figures.Record(name + " 64 B round trip", "us",
                   RoundTripNs(x, y, work, kSmall, n(200'000)) * 1e-3);
    figures.Record(name + " 64 B stream", "M/s",
                   StreamPerSecond(x, y, work, kSmall, n(2'000'000)) * 1e-6);
    figures.Record(name + " 64 B echo", "M/s",
                   EchoPerSecond(x, y, work, kSmall, n(1'000'000), kWindow) * 1e-6);
    const uint32_t mtu = 128u << a.interface().active_mtu();
    figures.Record(name + " bulk", "Gb/s",
                   StreamPerSecond(x, y, work, mtu, n(200'000)) * mtu * 8e-9);
  }
  {
    auto [client, server] = ends();
    figures.Record("+work, NULL call round trip", "us",
                   LeastCallNs(client, server, n(200'000), 1) * 1e-3);
    figures.Record("+work, NULL call rate", "M/s",
                   1e3 / LeastCallNs(client, server, n(1'000'000), kWindow));
  }
  {
    absl::StatusOr<std::unique_ptr<VerbsPair>> pair = VerbsPair::Connect(&a, &b);
    if (!pair.ok()) return pair.status();
    VerbsPair& verbs = **pair;
    figures.Record("SEND 64 B round trip", "us", verbs.SendRoundTripNs(kSmall, n(100'000)) * 1e-3);
    tools::Histogram round_trips_ns;
    verbs.SendRoundTripNs(kSmall, n(100'000), &round_trips_ns);
    figures.RecordLatencies("SEND 64 B round trip", round_trips_ns);
    figures.Record("SEND 64 B stream", "M/s",
                   verbs.PerSecond(IBV_WR_SEND, kSmall, n(1'000'000), kWindow) * 1e-6);
    figures.Record("WRITE 64 B stream", "M/s",
                   verbs.PerSecond(IBV_WR_RDMA_WRITE, kSmall, n(1'000'000), kWindow) * 1e-6);
    figures.Record("WRITE 1 MiB", "Gb/s",
                   verbs.PerSecond(IBV_WR_RDMA_WRITE, kBulkBytes, n(1'000), 4) * kBulkBytes * 8e-9);
    figures.Record("READ 1 MiB", "Gb/s",
                   verbs.PerSecond(IBV_WR_RDMA_READ, kBulkBytes, n(1'000), 4) * kBulkBytes * 8e-9);
    figures.Record("retransmitted packets, device", "", static_cast<double>(verbs.retransmitted()));
  }
  CloseWire(*opened);
  if (wire == Wire::kMemif) {
    figures.missing["1 MiB WRITE / eRPC, at least 2"] = "eRPC is no package of Debian's";
  }
  return absl::OkStatus();
}

// What Pollux adds to a round trip of the kernel's, by turns with it. Medians of the single round
// trips: a mean would say how busy the machine was.
absl::Status VethPass(Wire wire, double scale, Figures& figures) {
  constexpr int kTurns = 4;
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
  if (absl::IsPermissionDenied(opened.status())) {
    figures.missing["round trips by a veth pair"] = std::string(opened.status().message());
    return absl::OkStatus();
  }
  if (!opened.ok()) return opened.status();
  engine::Device& a = *opened->first;
  engine::Device& b = *opened->second;
  const auto rounds = static_cast<uint64_t>(20'000 * scale) + 2;
  const auto record = [&figures](const std::string& name, const tools::Histogram& each_ns) {
    figures.Record(name, "us", static_cast<double>(each_ns.Percentile(0.5)) * 1e-3);
    figures.RecordLatencies(name, each_ns);
  };
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const auto& [name, work] :
         {std::pair(kRawByVeth, Work::kRaw), {kWorkByVeth, Work::kPacket}}) {
      tools::Histogram each_ns;
      const WireEnd x = BareEnd(a), y = BareEnd(b);
      RoundTripNs(x, y, work, kSmall, rounds, &each_ns);
      record(name, each_ns);
    }
    absl::StatusOr<std::unique_ptr<VerbsPair>> pair = VerbsPair::Connect(&a, &b);
    if (!pair.ok()) return pair.status();
    tools::Histogram each_ns;
    (*pair)->SendRoundTripNs(kSmall, rounds, &each_ns);
    record(kSendByVeth, each_ns);
  }
  CloseWire(*opened);
  return absl::OkStatus();
}

// As many connections as are named, and which messages go round them.
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
        figures.Record(PairsFigure(count, burst), "M/s",
                       (*pairs)->SendsPerSecond(kSmall, messages, kWindow, burst) * 1e-6);
      }
      figures.Record(absl::StrFormat("retransmitted packets, %u connections", count), "",
                     static_cast<double>((*pairs)->retransmitted()));
    }
    CloseWire(*opened);
  }
  return absl::OkStatus();
}

// Each size in turn, as many under way as fit into 4 MiB.
absl::Status SizePass(Wire wire, double scale, Figures& figures) {
  constexpr uint32_t kUnderWay = 4u << 20;
  constexpr double kBytes = 512u << 20;
  constexpr double kMaxMessages = 500'000;
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
  if (!opened.ok()) return opened.status();
  {
    absl::StatusOr<std::unique_ptr<VerbsPair>> pair =
        VerbsPair::Connect(opened->first.get(), opened->second.get());
    if (!pair.ok()) return pair.status();
    for (const auto& [name, opcode] :
         {std::pair("SEND", IBV_WR_SEND), std::pair("WRITE", IBV_WR_RDMA_WRITE),
          std::pair("READ", IBV_WR_RDMA_READ)}) {
      for (const uint32_t bytes : kSizes) {
        const uint32_t window = std::clamp(kUnderWay / bytes, 4u, kWindow);
        const double messages = std::min(kMaxMessages, kBytes / bytes) * scale;
        const auto count = std::max<uint64_t>(window, static_cast<uint64_t>(messages));
        figures.Record(SizeFigure(name, bytes), "Gb/s",
                       (*pair)->PerSecond(opcode, bytes, count, window) * bytes * 8e-9);
      }
    }
  }
  CloseWire(*opened);
  return absl::OkStatus();
}

// Both ends on one core, by turns, beside the figures of two.
absl::Status OneCorePass(Wire wire, double scale, Figures& figures) {
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
  if (!opened.ok()) return opened.status();
  {
    absl::StatusOr<std::unique_ptr<VerbsPair>> pair =
        VerbsPair::Connect(opened->first.get(), opened->second.get(), Threads::kOne);
    if (!pair.ok()) return pair.status();
    const auto n = [scale](double count) { return static_cast<uint64_t>(count * scale) + kWindow; };
    RunOnTwoCores(
        [&] {
          figures.Record("SEND 64 B stream, 1 core", "M/s",
                         (*pair)->PerSecond(IBV_WR_SEND, kSmall, n(1'000'000), kWindow) * 1e-6);
          figures.Record(
              "WRITE 1 MiB, 1 core", "Gb/s",
              (*pair)->PerSecond(IBV_WR_RDMA_WRITE, kBulkBytes, n(500), 4) * kBulkBytes * 8e-9);
        },
        [] {});
  }
  CloseWire(*opened);
  return absl::OkStatus();
}

// Workers that share nothing, side by side.
absl::Status WorkersPass(Wire wire, double scale, Figures& figures) {
  for (const unsigned count : kWorkerPairs) {
    if (2 * count > tools::UsableCpus().size()) break;
    std::vector<engine::Device::Pair> wires;
    std::vector<std::unique_ptr<VerbsPair>> pairs;
    for (unsigned i = 0; i < count; ++i) {
      absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
      if (!opened.ok()) return opened.status();
      wires.push_back(*std::move(opened));
      absl::StatusOr<std::unique_ptr<VerbsPair>> pair =
          VerbsPair::Connect(wires[i].first.get(), wires[i].second.get(), Threads::kTwo, 2 * i);
      if (!pair.ok()) return pair.status();
      pairs.push_back(*std::move(pair));
    }
    for (const bool bulk : {false, true}) {
      const auto messages = static_cast<uint64_t>((bulk ? 1'000 : 2'000'000) * scale) + kWindow;
      std::vector<double> rates(count);
      std::vector<std::thread> threads;
      for (unsigned i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
          rates[i] = bulk ? pairs[i]->PerSecond(IBV_WR_RDMA_WRITE, kBulkBytes, messages, 4)
                          : pairs[i]->PerSecond(IBV_WR_SEND, kSmall, messages, kWindow);
        });
      }
      for (std::thread& thread : threads) thread.join();
      const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
      figures.Record(WorkersFigure(count, bulk), bulk ? "Gb/s" : "M/s",
                     bulk ? sum * kBulkBytes * 8e-9 : sum * 1e-6);
    }
    pairs.clear();
    for (engine::Device::Pair& pair : wires) CloseWire(pair);
  }
  return absl::OkStatus();
}

// Workers that share a port, with a queue each.
absl::Status SharedPortPass(Wire wire, double scale, Figures& figures) {
  if (wire != Wire::kRing) return absl::OkStatus();
  for (const unsigned workers : kSharers) {
    if (workers > tools::UsableCpus().size()) break;
    for (const Hops hops : {Hops::kNone, Hops::kEach}) {
      if (workers == 1 && hops == Hops::kEach) continue;
      const auto count = static_cast<uint64_t>(500'000 * scale) + kWindow;
      const absl::StatusOr<double> per_second =
          SharedPortSendsPerSecond(workers, hops, kSmall, count, kWindow);
      if (!per_second.ok()) return per_second.status();
      figures.Record(SharersFigure(workers, hops == Hops::kEach), "M/s", *per_second * 1e-6);
    }
  }
  return absl::OkStatus();
}

// Megabytes over a wire that loses frames of both directions, beside one that does not.
absl::Status LossPass(Wire wire, double scale, Figures& figures) {
  const auto measure = [&](double loss, const std::string& name) -> absl::Status {
    io::ImpairmentOptions impairment;
    impairment.loss = loss;
    absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire, impairment);
    if (!opened.ok()) return opened.status();
    {
      absl::StatusOr<std::unique_ptr<VerbsPair>> pair =
          VerbsPair::Connect(opened->first.get(), opened->second.get());
      if (!pair.ok()) return pair.status();
      const auto count = static_cast<uint64_t>(400 * scale) + 8;
      figures.Record(
          name, "Gb/s",
          (*pair)->PerSecond(IBV_WR_RDMA_WRITE, kBulkBytes, count, 4) * kBulkBytes * 8e-9);
    }
    CloseWire(*opened);
    return absl::OkStatus();
  };
  absl::Status status = measure(0, LossFigure(0));
  for (const double loss : kLosses) {
    if (status.ok()) status = measure(loss, LossFigure(loss));
  }
  return status;
}

// A message under way on each of a thousand queue pairs, without and with bulk on another, and that
// bulk alone.
absl::Status FairnessPass(Wire wire, double scale, Figures& figures) {
  constexpr uint32_t kPairs = 1'001;
  const auto n = [scale](double count) { return static_cast<uint64_t>(count * scale); };
  using Mix = ManyPairs::Mix;
  for (const auto& [mix, small, bulk, count] :
       {std::tuple(Mix::kSmall, kSmallAlone, "", n(500'000) + kPairs),
        {Mix::kBoth, kSmallBesideBulk, kBulkBesideSmall, n(500'000) + kPairs},
        {Mix::kBulk, "", kBulkAlone, n(500) + 8}}) {
    absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
    if (!opened.ok()) return opened.status();
    {
      absl::StatusOr<std::unique_ptr<ManyPairs>> pairs =
          ManyPairs::Connect(opened->first.get(), opened->second.get(), kPairs);
      if (!pairs.ok()) return pairs.status();
      ManyPairs::Mixed mixed;
      (*pairs)->RunMix(mix, kSmall, count, &mixed);
      if (mix != Mix::kBulk) {
        figures.Record(absl::StrCat(small, ", p99"), "us",
                       static_cast<double>(mixed.latency_ns.Percentile(0.99)) * 1e-3);
        figures.RecordLatencies(small, mixed.latency_ns);
      }
      if (mix != Mix::kSmall) figures.Record(bulk, "Gb/s", mixed.bulk_bytes_per_second * 8e-9);
    }
    CloseWire(*opened);
  }
  return absl::OkStatus();
}

std::string RpcFigure(bool write, uint32_t bytes) {
  return absl::StrCat("RPC ", write ? "write " : "read ", tools::ShortBytes(bytes), " round trip");
}

// NULL calls and megabytes of the file service.
absl::Status RpcPass(Wire wire, double scale, Figures& figures) {
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<std::unique_ptr<RpcPair>> started = RpcPair::Start(*std::move(opened));
  if (!started.ok()) return started.status();
  tools::Node& node = (*started)->node();
  tools::FileClient& client = (*started)->client();
  const auto n = [scale](double count) { return static_cast<uint64_t>(count * scale) + 1; };
  const auto one = TimeNullCalls(node, client, {.count = n(100'000)}, nullptr);
  if (!one.status.ok()) return one.status;
  figures.Record("NULL RPC round trip", "us", 1e6 / one.PerSecond());
  figures.RecordLatencies("NULL RPC round trip", *one.latency_ns);
  const auto many = TimeNullCalls(node, client, {.count = n(400'000), .window = kWindow}, nullptr);
  if (!many.status.ok()) return many.status;
  figures.Record("NULL RPC rate", "M/s", many.PerSecond() * 1e-6);
  for (const bool write : {true, false}) {
    const auto blocks = TimeBlocks(node, client, write, "bench", {.count = n(500)}, nullptr);
    if (!blocks.status.ok()) return blocks.status;
    figures.Record(write ? "RPC write 1 MiB" : "RPC read 1 MiB", "Gb/s",
                   blocks.BytesPerSecond() * 8e-9);
    for (const auto& [bytes, count] : {std::pair(4096u, n(50'000)), {kBulkBytes, n(500)}}) {
      const tools::BlockLoad single{.count = count, .bytes = bytes, .in_flight = 1};
      const auto calls = TimeBlocks(node, client, write, "single", single, nullptr);
      if (!calls.status.ok()) return calls.status;
      figures.Record(RpcFigure(write, bytes), "us",
                     calls.seconds * 1e6 / static_cast<double>(count));
    }
  }
  return absl::OkStatus();
}

// What each way to idle costs a call that comes when nothing has been done for a while: an open
// loop, slow enough that both ends idle in between.
absl::Status IdlePass(Wire wire, double scale, Figures& figures) {
  constexpr double kCalls = 1'000;  // at least: of fewer the 99th percentile is a few calls
  for (const auto& [name, idle] : kIdles) {
    absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
    if (!opened.ok()) return opened.status();
    absl::StatusOr<std::unique_ptr<RpcPair>> started = RpcPair::Start(*std::move(opened), idle);
    if (!started.ok()) return started.status();
    const auto calls = TimeNullCalls((*started)->node(), (*started)->client(),
                                     {.count = static_cast<uint64_t>(kCalls * std::max(1.0, scale)),
                                      .window = 16,
                                      .per_second = 1'000},
                                     nullptr);
    if (!calls.status.ok()) return calls.status;
    const std::string figure = absl::StrCat("NULL RPC, 1,000/s, --idle ", name);
    for (const auto& [part, fraction] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
      figures.Record(absl::StrCat(figure, ", ", part), "us",
                     static_cast<double>(calls.latency_ns->Percentile(fraction)) * 1e-3);
    }
    figures.RecordLatencies(figure, *calls.latency_ns);
  }
  return absl::OkStatus();
}

// One CLIENT's calls, one after the other, over Pollux, and over TCP by loopback and a veth pair.
absl::Status TirpcPass(Wire wire, double scale, Figures& figures) {
  const auto calls = static_cast<uint64_t>(10'000 * scale);
  const auto record = [&figures](const std::string& name, const TirpcTimes& times) {
    figures.Record(name + " NULL", "us", times.null_s * 1e6);
    figures.Record(name + " read 4 KiB", "us", times.read_4k_s * 1e6);
    figures.Record(name + " write 4 KiB", "us", times.write_4k_s * 1e6);
    figures.Record(name + " read 1 MiB", "us", times.read_1m_s * 1e6);
    figures.Record(name + " write 1 MiB", "us", times.write_1m_s * 1e6);
  };
  absl::StatusOr<engine::Device::Pair> opened = OpenWire(wire);
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<TirpcTimes> pollux = TimePollux(*std::move(opened), calls);
  if (!pollux.ok()) return pollux.status();
  record("libtirpc", *pollux);
  figures.Record("libtirpc copies, client", "B/B", pollux->client_copies);
  figures.Record("libtirpc copies, server", "B/B", pollux->server_copies);
  const absl::StatusOr<TirpcTimes> tcp = TimeTcp(calls);
  if (!tcp.ok()) return tcp.status();
  record("libtirpc TCP", *tcp);
  const absl::StatusOr<TirpcTimes> polling = TimeTcp(calls, TcpServer::kPolls);
  if (!polling.ok()) return polling.status();
  record("libtirpc TCP, polling server,", *polling);
  const absl::StatusOr<TirpcTimes> veth = TimeTcpByVeth(calls);
  if (absl::IsPermissionDenied(veth.status())) {
    figures.missing["libtirpc TCP by veth"] = std::string(veth.status().message());
    return absl::OkStatus();
  }
  if (!veth.ok()) return veth.status();
  record("libtirpc TCP by veth", *veth);
  return absl::OkStatus();
}

// Where a part runs.
bool InMemory(Wire wire) { return wire != Wire::kAfPacket; }
bool ByVeth(Wire wire) { return wire == Wire::kAfPacket; }
// Others' programs use no wire of ours. They stand beside the one that joins processes.
bool BetweenProcesses(Wire wire) { return wire == Wire::kMemif; }

struct Part {
  const char* name;
  bool (*of)(Wire wire);
  absl::Status (*run)(Wire wire, double scale, Figures& figures);  // null: another's program

  bool Runs(Wire wire, const std::string& asked) const {
    const std::vector<std::string> names = absl::StrSplit(asked, ',', absl::SkipEmpty());
    return of(wire) &&
           (names.empty() || std::find(names.begin(), names.end(), name) != names.end());
  }
};
constexpr Part kParts[] = {
    {"device", &InMemory, &DevicePass},
    {"sizes", &InMemory, &SizePass},
    {"one-core", &InMemory, &OneCorePass},
    {"workers", &InMemory, &WorkersPass},
    {"shared-port", &InMemory, &SharedPortPass},
    {"scale", &InMemory, &ScalePass},
    {"loss", &InMemory, &LossPass},
    {"fairness", &InMemory, &FairnessPass},
    {"rpc", &InMemory, &RpcPass},
    {"idle", &InMemory, &IdlePass},
    {"tirpc", &InMemory, &TirpcPass},
    {"veth", &ByVeth, &VethPass},
    {"ucx", &BetweenProcesses, nullptr},
    {"qperf", &BetweenProcesses, nullptr},
    {"sockperf", &BetweenProcesses, nullptr},
};

}  // namespace

std::string SizeFigure(const std::string& operation, uint32_t bytes) {
  return absl::StrCat(operation, " by size, ", tools::ShortBytes(bytes));
}

std::string PairsFigure(uint32_t count, uint32_t burst) {
  return absl::StrFormat("SEND 64 B, %u connections%s", count, burst == 1 ? "" : ", by 16");
}

std::string LossFigure(double loss) {
  return loss == 0 ? "WRITE 1 MiB, no loss"
                   : absl::StrFormat("WRITE 1 MiB, %g %% loss", 100 * loss);
}

std::string LossRatio(double loss) { return absl::StrFormat("%g %% loss / none", 100 * loss); }

std::string WorkersFigure(unsigned pairs, bool bulk) {
  return absl::StrFormat("%s, %u workers", bulk ? "WRITE 1 MiB" : "SEND 64 B", 2 * pairs);
}

std::string SharersFigure(unsigned workers, bool by_ring) {
  return absl::StrFormat("SEND 64 B, one port, %u worker%s%s", workers, workers == 1 ? "" : "s",
                         by_ring ? ", each by ring" : "");
}

std::string PartNames() {
  return absl::StrJoin(kParts, ", ",
                       [](std::string* to, const Part& one) { absl::StrAppend(to, one.name); });
}

absl::Status CheckParts(const std::string& parts) {
  for (const auto part : absl::StrSplit(parts, ',', absl::SkipEmpty())) {
    if (std::any_of(std::begin(kParts), std::end(kParts),
                    [part](const Part& one) { return one.name == part; })) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("no part '", part, "'; there are ", PartNames()));
  }
  return absl::OkStatus();
}

namespace {

// Nothing of a machine with one core.
void RecordCoreToCore(Figures& figures) {
  if (const auto ns = tools::CoreToCoreNs()) figures.Record(kCoreToCore, "ns", *ns);
}

absl::Status RunPart(const Part& part, Wire wire, const PassOptions& options, Figures& figures) {
  if (part.run != nullptr) return part.run(wire, options.scale, figures);
  if (options.peers.empty()) {
    figures.missing[part.name] = "tools/dev bench measures it: --peers was not given";
    return absl::OkStatus();
  }
  // Where a peer cannot be measured, everything else can.
  const absl::Status status = RecordPeer(options.peers, part.name, options.scale, figures);
  if (!status.ok()) figures.missing[part.name] = std::string(status.message());
  return absl::OkStatus();
}

}  // namespace

bool HasPart(Wire wire, const std::string& parts) {
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const Part& one) { return one.Runs(wire, parts); });
}

absl::Status RunPass(Wire wire, const PassOptions& options, Figures& figures) {
  RecordCoreToCore(figures);
  for (const Part& one : kParts) {
    if (!one.Runs(wire, options.parts)) continue;
    if (absl::Status status = RunPart(one, wire, options, figures); !status.ok()) return status;
    RecordCoreToCore(figures);
  }
  return absl::OkStatus();
}

absl::Status RunPasses(uint64_t passes, const std::vector<Wire>& wires, OnePass run,
                       Results& results) {
  for (uint64_t pass = 1; pass <= passes; ++pass) {
    for (const Wire wire : wires) {
      Figures figures;
      if (absl::Status status = run(pass, wire, figures); !status.ok()) return status;
      RecordRatios(figures);
      results.Add(wire, figures);
    }
  }
  return absl::OkStatus();
}

}  // namespace pollux::bench
