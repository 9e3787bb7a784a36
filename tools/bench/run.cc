#include "tools/bench/run.h"

#include <algorithm>
#include <future>
#include <map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "tools/bench/chart.h"
#include "tools/bench/verbs_session.h"
#include "tools/common/interrupt.h"
#include "tools/file_service/transfer.h"

namespace pollux::tools {
namespace {

constexpr size_t kMaxSizes = 32;
// Of large messages fewer are under way: more would only wait in queues.
constexpr uint32_t kBytesUnderWay = 8u << 20;
constexpr uint32_t kMinWindow = 4;
// Small messages complete in batches when a rate is measured, as programs that want rates have it.
constexpr uint32_t kBatch = 16;
constexpr uint32_t kBatchMaxBytes = 4096;

constexpr struct {
  const char* name;
  VerbsOperation latency, rate;
} kVerbs[] = {{"send", VerbsOperation::kEcho, VerbsOperation::kSend},
              {"write", VerbsOperation::kWrite, VerbsOperation::kWrite},
              {"read", VerbsOperation::kRead, VerbsOperation::kRead}};

bool IsEachSize(const std::string& what) {
  return std::any_of(std::begin(kVerbs), std::end(kVerbs),
                     [&](const auto& one) { return what == one.name; });
}

bool IsVerbs(const std::string& what) {
  return IsEachSize(what) || what == "pairs" || what == "beside";
}

LoadOptions Limited(const BenchPlan& plan) {
  return {.count = plan.count, .limit_ns = static_cast<uint64_t>(plan.seconds * 1e9)};
}

LoadOptions LatencyLoad(const BenchPlan& plan, uint32_t window) {
  LoadOptions load = Limited(plan);
  load.per_second = plan.per_second;
  load.window = plan.per_second > 0 ? window : 1;
  return load;
}

void Append(Series* all, const Series& more) {
  all->values.insert(all->values.end(), more.values.begin(), more.values.end());
}

double Us(const Histogram& latency_ns, double fraction) {
  return static_cast<double>(latency_ns.Percentile(fraction)) * 1e-3;
}

// While no core of the node polls: how far the machine's cores are apart.
std::optional<double> CoreToCoreBetween(Node& node, const std::vector<int>& cpus) {
  // Short, so that a stall of the scheduler falls into few of its rounds.
  constexpr uint64_t kTurns = 250;
  std::promise<void> measured;
  const std::shared_future<void> end = measured.get_future().share();
  std::vector<std::promise<void>> stand(node.cores());
  for (uint32_t core = 0; core < node.cores(); ++core) {
    engine::Actor::Post(node.worker(core), [&stand, core, end] {
      stand[core].set_value();
      end.wait();
    });
  }
  for (std::promise<void>& one : stand) one.get_future().wait();
  const std::optional<double> ns = CoreToCoreNs(cpus, kTurns);
  measured.set_value();
  // What has waited may still be unwinding on the cores.
  node.RunOnEach([](uint32_t) {});
  return ns;
}

// One pass, measurement by measurement.
class Pass {
 public:
  struct Given {
    Node& node;
    FileClient& client;
    const SocketAddress& verbs;
    const BenchPlan& plan;
    const std::vector<int>& cpus;
    VerbsSession& session;
    std::function<void(const std::string& what)> progress;
  };
  explicit Pass(const Given& given) : given_(given), plan_(given.plan) {}

  absl::Status Run(BenchRun* run) {
    run_.passes = 1;
    Calibrate(nullptr);
    for (const std::string& what : plan_.what) {
      // Connections that lie idle cost each turn of their cores.
      if (what != "pairs" && what != "beside") given_.session.Keep(1);
      if (what == "null") NullCalls();
      if (what == "blocks") Blocks();
      if (what == "pairs") Pairs();
      if (what == "beside") BesideBulk();
      for (const auto& operation : kVerbs) {
        if (what != operation.name) continue;
        for (const uint32_t bytes : plan_.sizes) Verbs(operation, bytes);
      }
    }
    run_.distance = DistanceOf(run_.core_to_core_ns);
    *run = std::move(run_);
    return status_;
  }

 private:
  // After a measurement, whose figures it belongs to as the one before does.
  void Calibrate(Series* of) {
    if (!status_.ok()) return;
    const std::optional<double> ns = CoreToCoreBetween(given_.node, given_.cpus);
    if (!ns) return;
    if (of != nullptr) of->values.insert(of->values.end(), {last_ns_, *ns});
    run_.core_to_core_ns.values.push_back(*ns);
    last_ns_ = *ns;
  }

  // Whether there is to be another measurement, which is told.
  bool Begin(const std::string& what) {
    if (status_.ok() && Interrupted()) status_ = absl::CancelledError("interrupted");
    if (status_.ok()) given_.progress(what);
    return status_.ok();
  }

  // One load of one operation.
  void Measure(const std::string& what, absl::FunctionRef<LoadResult()> load, LoadSeries* into,
               Series* core_to_core_ns) {
    if (!Begin(what)) return;
    const LoadResult result = load();
    status_.Update(result.status);
    into->Add(result);
    Calibrate(core_to_core_ns);
  }

  void NullCalls() {
    LoadOptions many = Limited(plan_);
    many.window = plan_.window;
    BenchRow row{.operation = "null", .window = plan_.window};
    const auto time = [this](const LoadOptions& load) {
      return TimeNullCalls(given_.node, given_.client, load, nullptr);
    };
    Measure(
        "null", [&] { return time(LatencyLoad(plan_, plan_.window)); }, &row.latency,
        &row.core_to_core_ns);
    Measure(
        "null rate", [&] { return time(many); }, &row.rate, &row.core_to_core_ns);
    run_.rows.push_back(std::move(row));
  }

  void Blocks() {
    for (const bool write : {true, false}) {
      if (!Begin(write ? "blocks, write" : "blocks, read")) return;
      const BlocksResult result = TimeBlocks(given_.node, given_.client, write, "pollux-bench",
                                             {.count = plan_.mib}, nullptr);
      status_.Update(result.status);
      if (!status_.ok()) return;
      (write ? run_.write_blocks : run_.read_blocks).values.push_back(result.BytesPerSecond());
      Calibrate(nullptr);
    }
  }

  LoadResult OnFirst(const VerbsMeasurement& measurement) {
    return std::move(given_.session.Measure({{0, measurement}}).front());
  }

  template <class Operation>
  void Verbs(const Operation& operation, uint32_t bytes) {
    const uint32_t most = std::min(plan_.window, kBenchMaxWindow);
    const uint32_t window = std::min(std::max(kBytesUnderWay / bytes, kMinWindow), most);
    VerbsMeasurement one{.operation = operation.latency, .bytes = bytes};
    one.load = LatencyLoad(plan_, window);
    VerbsMeasurement many{.operation = operation.rate, .bytes = bytes};
    if (bytes <= kBatchMaxBytes && window >= 4 * kBatch) many.batch = kBatch;
    many.load = Limited(plan_);
    many.load.window = window / many.batch;
    many.load.count = std::max<uint64_t>(1, plan_.count / many.batch);
    const std::string name = absl::StrCat(operation.name, " ", ShortBytes(bytes));
    BenchRow row{.operation = operation.name, .bytes = bytes, .window = window};
    Measure(
        name, [&] { return OnFirst(one); }, &row.latency, &row.core_to_core_ns);
    Measure(
        name + " rate", [&] { return OnFirst(many); }, &row.rate, &row.core_to_core_ns);
    run_.rows.push_back(std::move(row));
  }

  // As many queue pairs as are asked for, of all cores; and of several cores, the most of them on
  // one, on two, and so on.
  void Pairs() {
    const uint32_t all = given_.node.cores();
    const uint32_t most = *std::max_element(plan_.pairs.begin(), plan_.pairs.end());
    if (!Connect(most)) return;
    for (const uint32_t count : plan_.pairs) OnPairs(count, std::min(all, count));
    for (uint32_t cores = 1; cores < all && all <= most; ++cores) OnPairs(most, cores);
  }

  bool Connect(size_t count) {
    if (status_.ok()) status_ = given_.session.Connect(given_.verbs, count);
    return status_.ok();
  }

  // Of more cores than are asked for, the first ones' connections have all that is to be sent.
  void OnPairs(uint32_t count, uint32_t cores) {
    if (!Begin(absl::StrCat(QueuePairs(count), ", ", cores, cores == 1 ? " core" : " cores"))) {
      return;
    }
    std::vector<std::pair<size_t, VerbsMeasurement>> each;
    for (size_t number = 0; number < count; ++number) {
      if (number % given_.node.cores() >= cores) continue;
      each.emplace_back(number,
                        VerbsMeasurement{.operation = VerbsOperation::kSend, .bytes = kSmallBytes});
    }
    PairsRow row{.queue_pairs = static_cast<uint32_t>(each.size()), .cores = cores};
    for (auto& [number, one] : each) {
      one.load = Limited(plan_);
      one.load.count = std::max<uint64_t>(1, plan_.count / each.size());
      one.load.window = std::max(1u, std::min(plan_.window, kBenchMaxWindow) / row.queue_pairs);
    }
    const LoadResult all = Together(given_.session.Measure(each));
    status_.Update(all.status);
    row.per_second.values.push_back(all.PerSecond());
    Calibrate(&row.core_to_core_ns);
    run_.pairs.push_back(std::move(row));
  }

  // A small message under way on each queue pair but the last, which has the bulk; each alone, and
  // both.
  void BesideBulk() {
    const uint32_t most = std::max(2u, *std::max_element(plan_.pairs.begin(), plan_.pairs.end()));
    if (!Connect(most)) return;
    run_.small_pairs = most - 1;
    std::vector<std::pair<size_t, VerbsMeasurement>> each;
    for (size_t number = 0; number < run_.small_pairs; ++number) {
      VerbsMeasurement echo{.operation = VerbsOperation::kEcho, .bytes = kSmallBytes};
      echo.load = Limited(plan_);
      echo.load.count = std::max<uint64_t>(1, plan_.count / run_.small_pairs);
      each.emplace_back(number, echo);
    }
    Measure(
        "small messages", [&] { return Together(given_.session.Measure(each)); }, &run_.alone,
        nullptr);
    VerbsMeasurement bulk{.operation = VerbsOperation::kWrite, .bytes = kBulkBytes};
    bulk.load = Limited(plan_);
    bulk.load.window = kMinWindow;
    Measure(
        "bulk",
        [&] {
          return Together(given_.session.Measure({{run_.small_pairs, bulk}}));
        },
        &run_.bulk_alone, nullptr);
    // As long as the small ones take.
    bulk.load.count = UINT64_MAX;
    bulk.load.limit_ns = 0;
    each.emplace_back(run_.small_pairs, bulk);
    const auto both = [&] {
      const std::vector<LoadResult> results = given_.session.Measure(each, 1);
      LoadResult small = Together(absl::MakeConstSpan(results).first(run_.small_pairs));
      small.status.Update(results.back().status);
      run_.bulk_beside.Add(results.back());
      return small;
    };
    Measure("small messages beside bulk", both, &run_.beside, nullptr);
  }

  const Given& given_;
  const BenchPlan& plan_;
  absl::Status status_;
  double last_ns_ = 0;
  BenchRun run_;
};

// How many measurements a pass begins.
uint64_t MeasurementsOf(const BenchPlan& plan, uint32_t cores) {
  uint64_t all = 0;
  for (const std::string& what : plan.what) {
    const uint32_t most = *std::max_element(plan.pairs.begin(), plan.pairs.end());
    if (what == "pairs") {
      all += plan.pairs.size() + (cores <= most ? cores - 1 : 0);
    } else {
      all += IsEachSize(what) ? 2 * plan.sizes.size() : what == "beside" ? 3 : 2;
    }
  }
  return all;
}

std::vector<std::string> Split(const std::string& list) { return absl::StrSplit(list, ','); }

// Each once, where it comes first.
template <class T>
std::vector<T> Once(const std::vector<T>& asked) {
  std::vector<T> once;
  for (const T& one : asked) {
    if (std::find(once.begin(), once.end(), one) == once.end()) once.push_back(one);
  }
  return once;
}

}  // namespace

std::string QueuePairs(uint32_t count) {
  return absl::StrCat(count, count == 1 ? " queue pair" : " queue pairs");
}

void LoadSeries::Add(const LoadResult& of_pass) {
  operations += of_pass.operations;
  per_second.values.push_back(of_pass.PerSecond());
  median_us.values.push_back(Us(*of_pass.latency_ns, 0.5));
  p99_us.values.push_back(Us(*of_pass.latency_ns, 0.99));
  latency_ns->Add(*of_pass.latency_ns);
}

void LoadSeries::Add(const LoadSeries& more) {
  operations += more.operations;
  Append(&per_second, more.per_second);
  Append(&median_us, more.median_us);
  Append(&p99_us, more.p99_us);
  latency_ns->Add(*more.latency_ns);
}

const BenchRow* BenchRun::Find(const std::string& operation, std::optional<uint32_t> bytes) const {
  for (const BenchRow& row : rows) {
    if (row.operation == operation && row.bytes == bytes) return &row;
  }
  return nullptr;
}

void BenchRun::Add(BenchRun pass) {
  passes += pass.passes;
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    if (i == rows.size()) {
      rows.push_back(std::move(pass.rows[i]));
      continue;
    }
    rows[i].latency.Add(pass.rows[i].latency);
    rows[i].rate.Add(pass.rows[i].rate);
    Append(&rows[i].core_to_core_ns, pass.rows[i].core_to_core_ns);
  }
  for (size_t i = 0; i < pass.pairs.size(); ++i) {
    if (i == pairs.size()) {
      pairs.push_back(std::move(pass.pairs[i]));
      continue;
    }
    Append(&pairs[i].per_second, pass.pairs[i].per_second);
    Append(&pairs[i].core_to_core_ns, pass.pairs[i].core_to_core_ns);
  }
  small_pairs = pass.small_pairs;
  alone.Add(pass.alone);
  beside.Add(pass.beside);
  bulk_alone.Add(pass.bulk_alone);
  bulk_beside.Add(pass.bulk_beside);
  Append(&write_blocks, pass.write_blocks);
  Append(&read_blocks, pass.read_blocks);
  Append(&core_to_core_ns, pass.core_to_core_ns);
}

bool BenchPlan::verbs() const { return std::any_of(what.begin(), what.end(), IsVerbs); }

absl::Status BenchPlan::SetWhat(const std::string& list) {
  const std::vector<std::string> asked = Split(list);
  for (const std::string& one : asked) {
    if (one != "null" && one != "blocks" && !IsVerbs(one)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", one, "' is not one of null, blocks, send, write, read, pairs, beside"));
    }
  }
  what = Once(asked);
  return absl::OkStatus();
}

absl::Status BenchPlan::SetPairs(const std::string& list) {
  std::vector<uint32_t> asked;
  for (const std::string& text : Split(list)) {
    uint32_t count = 0;
    if (!absl::SimpleAtoi(text, &count) || count == 0 || count > kBenchMaxPairs) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is not a number of queue pairs from 1 to ", kBenchMaxPairs));
    }
    asked.push_back(count);
  }
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  pairs = asked;
  return absl::OkStatus();
}

absl::Status BenchPlan::SetSizes(const std::string& list) {
  std::vector<uint32_t> asked;
  if (list == "all") {
    for (uint32_t bytes = 2; bytes <= kBenchMaxBytes; bytes *= 2) asked.push_back(bytes);
  } else {
    for (const auto text : absl::StrSplit(list, ',')) {
      uint32_t bytes = 0;
      if (!absl::SimpleAtoi(text, &bytes) || bytes == 0 || bytes > kBenchMaxBytes) {
        return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a size from 1 to ",
                                                       kBenchMaxBytes, " bytes, nor \"all\""));
      }
      asked.push_back(bytes);
    }
  }
  asked = Once(asked);
  if (asked.size() > kMaxSizes) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxSizes, " sizes"));
  }
  sizes = asked;
  return absl::OkStatus();
}

absl::Status BenchPlan::Check() const {
  const bool paced = std::any_of(what.begin(), what.end(), [](const std::string& one) {
    return one == "null" || IsEachSize(one);
  });
  if (per_second == 0 || paced) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--rate: give at least one of null, send, write and read in --measure, since only these can "
      "run in an open loop");
}

BenchResult RunBench(Node& node, FileClient& client, const SocketAddress& verbs,
                     const BenchPlan& plan, const std::vector<int>& cpus,
                     const BenchProgress& progress) {
  BenchResult result;
  VerbsSession session(node);
  if (plan.verbs()) result.status = session.Connect(verbs, 1);
  std::map<CoreDistance, BenchRun> runs;
  const uint64_t total = plan.passes * MeasurementsOf(plan, node.cores());
  uint64_t done = 0;
  for (uint64_t number = 1; number <= plan.passes && result.status.ok(); ++number) {
    const Pass::Given given{
        node, client, verbs, plan, cpus, session, [&](const std::string& what) {
          progress(absl::StrCat("pass ", number, " of ", plan.passes, ", ", what), done++, total);
        }};
    BenchRun pass;
    result.status = Pass(given).Run(&pass);
    // Half a pass has half of its figures, and would count as a whole one.
    if (!result.status.ok()) break;
    BenchRun& run = runs[pass.distance];
    run.distance = pass.distance;
    run.Add(std::move(pass));
  }
  if (result.status.ok()) progress("all passes", total, total);
  for (auto& [distance, run] : runs) result.runs.push_back(std::move(run));
  std::stable_sort(result.runs.begin(), result.runs.end(),
                   [](const BenchRun& a, const BenchRun& b) { return a.passes > b.passes; });
  return result;
}

std::vector<Verdict> BenchVerdicts(const BenchRun& run) {
  std::vector<Verdict> verdicts;
  const auto add = [&verdicts](const std::string& name, const Series& above, const Series& below,
                               const Verdict& limits) {
    verdicts.push_back(limits);
    verdicts.back().name = name;
    verdicts.back().ratios = Ratios(above, below);
  };
  const BenchRow* write = run.Find("write", kBulkBytes);
  const BenchRow* read = run.Find("read", kBulkBytes);
  const BenchRow* null = run.Find("null", std::nullopt);
  const BenchRow* send = run.Find("send", kSmallBytes);
  if (write != nullptr && read != nullptr) {
    add("1 MiB READ / WRITE", read->rate.per_second, write->rate.per_second,
        {.target = 0.85, .aim = 0.95});
  }
  if (run.beside.operations > 0) {
    add(absl::StrCat("bulk beside 64 B on ", QueuePairs(run.small_pairs), " / alone"),
        run.bulk_beside.per_second, run.bulk_alone.per_second, {.target = kMinBulkShare});
    const std::string starved = verdicts.back().met() ? "" : kBulkStarved;
    add(absl::StrCat("64 B on ", QueuePairs(run.small_pairs), " beside bulk / alone, p99"),
        run.beside.p99_us, run.alone.p99_us, {.target = 3, .at_most = true, .unmet_by = starved});
  }
  if (null != nullptr && send != nullptr) {
    add("NULL RPC round trip / 64 B SEND", null->latency.median_us, send->latency.median_us,
        {.at_most = true});
  }
  for (size_t i = 1; i < run.pairs.size(); ++i) {
    const PairsRow &first = run.pairs.front(), &row = run.pairs[i];
    const std::string name = row.cores == first.cores
                                 ? absl::StrFormat("64 B SENDs on %s / %u",
                                                   QueuePairs(row.queue_pairs), first.queue_pairs)
                                 : absl::StrFormat("64 B SENDs on %s of %u cores / %u of %u",
                                                   QueuePairs(row.queue_pairs), row.cores,
                                                   first.queue_pairs, first.cores);
    add(name, row.per_second, first.per_second, {});
  }
  return verdicts;
}

}  // namespace pollux::tools
