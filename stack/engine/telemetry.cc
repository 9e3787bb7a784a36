#include "stack/engine/telemetry.h"

#include <rte_telemetry.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "stack/engine/telemetry_reply.h"

namespace pollux::engine {
namespace {

// The telemetry thread waits for it, until the worker has given it or has dropped the query.
class PendingStats {
 public:
  void Give(std::optional<Stats> stats) {
    const std::lock_guard lock(mutex_);
    stats_ = std::move(stats);
    given_ = true;
    changed_.notify_all();
  }
  // False when nothing came in time.
  bool Wait(std::chrono::milliseconds timeout, std::optional<Stats>* stats) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [this] { return given_; })) return false;
    *stats = std::move(stats_);
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool given_ = false;
  std::optional<Stats> stats_;
};

// Rides in the message: one that is never run says so when it goes.
class StatsPromise {
 public:
  explicit StatsPromise(std::shared_ptr<PendingStats> pending) : pending_(std::move(pending)) {}
  StatsPromise(StatsPromise&&) = default;
  ~StatsPromise() { Keep(std::nullopt); }
  void Keep(std::optional<Stats> stats) {
    if (const auto pending = std::exchange(pending_, nullptr)) pending->Give(std::move(stats));
  }

 private:
  std::shared_ptr<PendingStats> pending_;
};

struct Registry {
  std::mutex mutex;
  std::map<uint32_t, Worker*> workers;
  uint32_t next_number = 0;
  std::map<std::string, Topic, std::less<>> topics;
};
// Lives as long as DPDK's telemetry thread: to the end.
Registry& TheRegistry() {
  static auto* const registry = new Registry();
  return *registry;
}

struct Parameters {
  std::optional<uint64_t> first, second;
};

absl::StatusOr<Parameters> ParseParameters(std::string_view text) {
  Parameters parameters;
  if (text.empty()) return parameters;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  uint64_t numbers[2] = {};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i >= 2 || !absl::SimpleAtoi(parts[i], &numbers[i])) {
      return absl::InvalidArgumentError(
          absl::StrFormat("parameters \"%s\": give one or two numbers", std::string(text)));
    }
  }
  parameters.first = numbers[0];
  if (parts.size() == 2) parameters.second = numbers[1];
  return parameters;
}

absl::StatusOr<Topic::Asks> AsksOf(std::string_view topic) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.topics.find(topic);
  if (found == registry.topics.end()) {
    return absl::NotFoundError(absl::StrFormat("unknown topic \"%s\"", std::string(topic)));
  }
  return found->second.asks;
}

// The numbers of those to ask.
absl::StatusOr<std::vector<uint32_t>> WorkersFor(std::optional<uint64_t> number) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  std::vector<uint32_t> found;
  for (const auto& [known, worker] : registry.workers) {
    if (!number || *number == known) found.push_back(known);
  }
  if (!found.empty()) return found;
  return absl::NotFoundError(number ? absl::StrFormat("no worker %d here", *number)
                                    : "no worker here");
}

// Nothing when it has nothing to say, or is gone meanwhile.
absl::StatusOr<std::optional<Stats>> AskOne(uint32_t number, const std::string& topic,
                                            std::optional<uint64_t> object,
                                            std::chrono::milliseconds timeout) {
  auto pending = std::make_shared<PendingStats>();
  {
    Registry& registry = TheRegistry();
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.workers.find(number);
    if (found == registry.workers.end()) return std::nullopt;
    Worker* const worker = found->second;
    Actor::Post(*worker, [worker, topic, object, promise = StatsPromise(pending)]() mutable {
      Stats stats;
      const bool told = worker->Collect({.topic = topic, .object = object}, &stats);
      promise.Keep(told ? std::optional(std::move(stats)) : std::nullopt);
    });
  }
  std::optional<Stats> stats;
  if (!pending->Wait(timeout, &stats)) {
    return absl::DeadlineExceededError(
        absl::StrFormat("worker %u does not answer: is it polled?", number));
  }
  return stats;
}

absl::StatusOr<Stats> AskFirst(const std::string& topic, std::optional<uint64_t> worker,
                               std::optional<uint64_t> object, bool all,
                               std::chrono::milliseconds timeout) {
  const auto workers = WorkersFor(worker);
  if (!workers.ok()) return workers.status();
  for (const uint32_t number : *workers) {
    auto stats = AskOne(number, topic, object, timeout);
    if (!stats.ok()) return stats.status();
    if (*stats) return **std::move(stats);
    if (!all) break;
  }
  return absl::NotFoundError(object ? absl::StrFormat("%s: no %u here", topic, *object)
                                    : absl::StrFormat("%s: there is none here", topic));
}

absl::StatusOr<Stats> AskAll(const std::string& topic, std::optional<uint64_t> object,
                             std::chrono::milliseconds timeout) {
  const auto workers = WorkersFor(std::nullopt);
  if (!workers.ok()) return workers.status();
  Stats all;
  for (const uint32_t number : *workers) {
    auto stats = AskOne(number, topic, object, timeout);
    if (!stats.ok()) return stats.status();
    if (!*stats) continue;
    for (const auto& [name, value] : (*stats)->fields()) {
      all.Set(absl::StrCat(number, "/", name), value);
    }
  }
  return all;
}

// In DPDK's telemetry thread.
int OnCommand(const char* command, const char* parameters, rte_tel_data* data) {
  std::string_view topic = command;
  topic.remove_prefix(std::min(kTelemetryPrefix.size(), topic.size()));
  return ReplyToTelemetry(AskWorkers(topic, parameters == nullptr ? "" : parameters), data);
}

void OfferWorkersTopics() {
  using Asks = Topic::Asks;
  const Topic topics[] = {
      {"workers", Asks::kAllWorkers, "Each worker's number and how many queue pairs it has"},
      {"worker", Asks::kWorker,
       "How busy a worker is, and what passes to and from others. Parameters: [WORKER]"},
      {"ports", Asks::kAllWorkers, "The ports, under WORKER/PORT"},
      {"port", Asks::kWorker, "Counters of a port. Parameters: [WORKER[,PORT]]"},
      {"qps", Asks::kWorker, "Numbers of queue pairs. Parameters: [WORKER[,AFTER]]"},
      {"qp", Asks::kObject, "A queue pair and its counters. Parameters: QPN[,WORKER]"},
      {"recorder", Asks::kObject, "A queue pair's flight recorder. Parameters: QPN[,WORKER]"},
      {"memory", Asks::kWorker, "Objects in use. Parameters: [WORKER]"},
  };
  for (const Topic& topic : topics) OfferTopic(topic);
}

}  // namespace

void OfferTopic(const Topic& topic) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  if (!registry.topics.emplace(topic.name, topic).second) return;
  rte_telemetry_register_cmd(absl::StrCat(std::string(kTelemetryPrefix), topic.name).c_str(),
                             &OnCommand, topic.help.c_str());
}

absl::StatusOr<Stats> AskWorkers(std::string_view topic, std::string_view parameters,
                                 std::chrono::milliseconds timeout) {
  const auto asks = AsksOf(topic);
  if (!asks.ok()) return asks.status();
  const auto parsed = ParseParameters(parameters);
  if (!parsed.ok()) return parsed.status();
  const std::string name(topic);
  switch (*asks) {
    case Topic::Asks::kAllWorkers:
      return AskAll(name, parsed->first, timeout);
    case Topic::Asks::kObject:
      if (!parsed->first) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": give its number"));
      }
      return AskFirst(name, parsed->second, parsed->first, true, timeout);
    case Topic::Asks::kWorker:
      break;
  }
  return AskFirst(name, parsed->first, parsed->second, false, timeout);
}

Published::Published(Worker* worker) {
  OfferWorkersTopics();
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  number_ = registry.next_number++;
  registry.workers.emplace(number_, worker);
}

Published::~Published() {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.workers.erase(number_);
}

DeviceTelemetry::DeviceTelemetry(Device& device) {
  for (uint32_t i = 0; i < device.workers(); ++i) {
    workers_.push_back(std::make_unique<Published>(&device.worker(i)));
  }
}

}  // namespace pollux::engine
