#include "tools/bench/run.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/await.h"
#include "tools/bench/chart.h"
#include "tools/interrupt.h"
#include "tools/session.h"

namespace pollux::tools {
namespace {

constexpr size_t kMaxSizes = 32;
// Of large messages fewer are under way: more would only wait in queues.
constexpr uint32_t kBytesUnderWay = 8u << 20;
constexpr uint32_t kLeastWindow = 4;
// Small messages complete in batches when a rate is measured, as programs that want rates have it.
constexpr uint32_t kBatch = 16;
constexpr uint32_t kBatchMaxBytes = 4096;

constexpr struct {
  const char* name;
  VerbsOperation latency, rate;
} kVerbs[] = {{"send", VerbsOperation::kEcho, VerbsOperation::kSend},
              {"write", VerbsOperation::kWrite, VerbsOperation::kWrite},
              {"read", VerbsOperation::kRead, VerbsOperation::kRead}};

bool IsVerbs(const std::string& what) {
  return std::any_of(std::begin(kVerbs), std::end(kVerbs),
                     [&](const auto& one) { return what == one.name; });
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

// The connection of a run's verbs measurements.
class VerbsSession {
 public:
  explicit VerbsSession(Node& node) : node_(node) {}
  ~VerbsSession() { End(node_, std::move(client_)); }

  absl::Status Connect(const cm::Endpoint& server) {
    std::promise<absl::Status> ready;
    std::future<absl::Status> result = ready.get_future();
    auto made = node_.Run([&] {
      return VerbsClient::Connect(
          &node_.device().worker(), &node_.manager(), server,
          [&ready](absl::Status status) { ready.set_value(std::move(status)); });
    });
    if (!made.ok()) return made.status();
    client_ = *std::move(made);
    while (result.wait_for(std::chrono::milliseconds(kTickMs)) != std::future_status::ready) {
      // Its end is that of the promise.
      if (Interrupted()) node_.Run([this] { client_->Disconnect([] {}); });
    }
    const absl::Status status = InterruptedOr(result.get());
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat("verbs measurements: ", status.message(),
                                     "; `pollux bench --server` serves them, and `pollux serve` "
                                     "--measure null,blocks alone"));
  }

  LoadResult Measure(const VerbsMeasurement& measurement, const Progress& progress) {
    std::promise<LoadResult> done;
    std::future<LoadResult> result = done.get_future();
    node_.Run([&] {
      client_->Measure(measurement,
                       [&done](LoadResult measured) { done.set_value(std::move(measured)); });
    });
    LoadResult measured = AwaitShowing(node_, *client_, result, client_->operations(),
                                       measurement.load.count * measurement.batch, progress);
    measured.status = InterruptedOr(measured.status);
    return measured;
  }

 private:
  Node& node_;
  std::unique_ptr<VerbsClient> client_;
};

// One run, measurement by measurement.
class Runner {
 public:
  Runner(Node& node, FileClient& client, const BenchPlan& plan, const BenchProgress& progress)
      : node_(node), client_(client), plan_(plan), progress_(progress), session_(node) {}

  BenchRun Run(const cm::Endpoint& verbs) {
    if (plan_.verbs()) run_.status = session_.Connect(verbs);
    for (const std::string& what : plan_.what) {
      if (!run_.status.ok()) break;
      if (what == "null") NullCalls();
      if (what == "blocks") Blocks();
      for (const auto& operation : kVerbs) {
        if (what != operation.name) continue;
        for (const uint32_t bytes : plan_.sizes) Verbs(operation, bytes);
      }
    }
    return std::move(run_);
  }

 private:
  // Both loads of one operation.
  void Measure(BenchRow row, absl::FunctionRef<LoadResult()> latency,
               absl::FunctionRef<LoadResult()> rate) {
    row.latency = latency();
    run_.status.Update(row.latency.status);
    if (run_.status.ok()) row.rate = rate();
    run_.status.Update(row.rate.status);
    run_.rows.push_back(std::move(row));
  }

  void NullCalls() {
    LoadOptions many = Limited(plan_);
    many.window = plan_.window;
    Measure(
        {.operation = "null", .window = plan_.window},
        [&] {
          return TimeNullCalls(node_, client_, LatencyLoad(plan_, plan_.window),
                               progress_("null", false));
        },
        [&] { return TimeNullCalls(node_, client_, many, progress_("null rate", false)); });
  }

  void Blocks() {
    for (const bool write : {true, false}) {
      if (!run_.status.ok()) return;
      BlocksResult result = TimeBlocks(node_, client_, write, "pollux-bench", {.count = plan_.mib},
                                       progress_(write ? "write" : "read", true));
      run_.status.Update(result.status);
      (write ? run_.write_blocks : run_.read_blocks) = std::move(result);
    }
  }

  template <class Operation>
  void Verbs(const Operation& operation, uint32_t bytes) {
    if (!run_.status.ok()) return;
    const uint32_t most = std::min(plan_.window, kBenchMaxWindow);
    const uint32_t window = std::min(std::max(kBytesUnderWay / bytes, kLeastWindow), most);
    VerbsMeasurement one{.operation = operation.latency, .bytes = bytes};
    one.load = LatencyLoad(plan_, window);
    VerbsMeasurement many{.operation = operation.rate, .bytes = bytes};
    if (bytes <= kBatchMaxBytes && window >= 4 * kBatch) many.batch = kBatch;
    many.load = Limited(plan_);
    many.load.window = window / many.batch;
    many.load.count = std::max<uint64_t>(1, plan_.count / many.batch);
    const std::string name = absl::StrCat(operation.name, " ", ShortBytes(bytes));
    Measure(
        {.operation = operation.name, .bytes = bytes, .window = window},
        [&] { return session_.Measure(one, progress_(name, false)); },
        [&] { return session_.Measure(many, progress_(name + " rate", false)); });
  }

  Node& node_;
  FileClient& client_;
  const BenchPlan& plan_;
  const BenchProgress& progress_;
  VerbsSession session_;
  BenchRun run_;
};

}  // namespace

bool BenchPlan::verbs() const { return std::any_of(what.begin(), what.end(), IsVerbs); }

absl::Status BenchPlan::SetWhat(const std::string& list) {
  const std::vector<std::string> asked = absl::StrSplit(list, ',');
  for (const std::string& one : asked) {
    if (one != "null" && one != "blocks" && !IsVerbs(one)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", one, "' is none of null, blocks, send, write, read"));
    }
  }
  what = asked;
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
        return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no size from 1 to ",
                                                       kBenchMaxBytes, " bytes, nor \"all\""));
      }
      asked.push_back(bytes);
    }
  }
  if (asked.size() > kMaxSizes) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxSizes, " sizes"));
  }
  sizes = asked;
  return absl::OkStatus();
}

BenchRun RunBench(Node& node, FileClient& client, const cm::Endpoint& verbs, const BenchPlan& plan,
                  const BenchProgress& progress) {
  return Runner(node, client, plan, progress).Run(verbs);
}

}  // namespace pollux::tools
