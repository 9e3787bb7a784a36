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
#include "stack/engine/telemetry_answer.h"

namespace pollux::engine {
namespace {

// Who asks waits for it; who answers, or drops the question, ends the wait.
class Answer {
 public:
  void Give(std::optional<Report> report) {
    const std::lock_guard lock(mutex_);
    report_ = std::move(report);
    given_ = true;
    changed_.notify_all();
  }
  // False when nothing came in time.
  bool Wait(std::chrono::milliseconds patience, std::optional<Report>* report) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [this] { return given_; })) return false;
    *report = std::move(report_);
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool given_ = false;
  std::optional<Report> report_;
};

// Rides in the message: one that is never run says so when it goes.
class Promise {
 public:
  explicit Promise(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
  Promise(Promise&&) = default;
  ~Promise() { Keep(std::nullopt); }
  void Keep(std::optional<Report> report) {
    if (const auto answer = std::exchange(answer_, nullptr)) answer->Give(std::move(report));
  }

 private:
  std::shared_ptr<Answer> answer_;
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
          absl::StrFormat("parameters \"%s\": one or two numbers are meant", std::string(text)));
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
    return absl::NotFoundError(absl::StrFormat("no topic \"%s\" here", std::string(topic)));
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
absl::StatusOr<std::optional<Report>> AskOne(uint32_t number, const std::string& topic,
                                             std::optional<uint64_t> object,
                                             std::chrono::milliseconds patience) {
  auto answer = std::make_shared<Answer>();
  {
    Registry& registry = TheRegistry();
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.workers.find(number);
    if (found == registry.workers.end()) return std::nullopt;
    Worker* const worker = found->second;
    Party::Post(*worker, [worker, topic, object, promise = Promise(answer)]() mutable {
      Report report;
      const bool told = worker->Tell({.topic = topic, .object = object}, &report);
      promise.Keep(told ? std::optional(std::move(report)) : std::nullopt);
    });
  }
  std::optional<Report> report;
  if (!answer->Wait(patience, &report)) {
    return absl::DeadlineExceededError(
        absl::StrFormat("worker %u does not answer: is it polled?", number));
  }
  return report;
}

absl::StatusOr<Report> AskFirst(const std::string& topic, std::optional<uint64_t> worker,
                                std::optional<uint64_t> object, bool all,
                                std::chrono::milliseconds patience) {
  const auto workers = WorkersFor(worker);
  if (!workers.ok()) return workers.status();
  for (const uint32_t number : *workers) {
    auto report = AskOne(number, topic, object, patience);
    if (!report.ok()) return report.status();
    if (*report) return **std::move(report);
    if (!all) break;
  }
  return absl::NotFoundError(object ? absl::StrFormat("%s: no %u here", topic, *object)
                                    : absl::StrFormat("%s: there is none here", topic));
}

absl::StatusOr<Report> AskAll(const std::string& topic, std::optional<uint64_t> object,
                              std::chrono::milliseconds patience) {
  const auto workers = WorkersFor(std::nullopt);
  if (!workers.ok()) return workers.status();
  Report all;
  for (const uint32_t number : *workers) {
    auto report = AskOne(number, topic, object, patience);
    if (!report.ok()) return report.status();
    if (!*report) continue;
    for (const auto& [name, value] : (*report)->fields()) {
      all.Set(absl::StrCat(number, "/", name), value);
    }
  }
  return all;
}

// In DPDK's telemetry thread.
int OnCommand(const char* command, const char* parameters, rte_tel_data* data) {
  std::string_view topic = command;
  topic.remove_prefix(std::min(kTelemetryPrefix.size(), topic.size()));
  return AnswerTelemetry(AskWorkers(topic, parameters == nullptr ? "" : parameters), data);
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

absl::StatusOr<Report> AskWorkers(std::string_view topic, std::string_view parameters,
                                  std::chrono::milliseconds patience) {
  const auto asks = AsksOf(topic);
  if (!asks.ok()) return asks.status();
  const auto parsed = ParseParameters(parameters);
  if (!parsed.ok()) return parsed.status();
  const std::string name(topic);
  switch (*asks) {
    case Topic::Asks::kAllWorkers:
      return AskAll(name, parsed->first, patience);
    case Topic::Asks::kObject:
      if (!parsed->first) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": which? give its number"));
      }
      return AskFirst(name, parsed->second, parsed->first, true, patience);
    case Topic::Asks::kWorker:
      break;
  }
  return AskFirst(name, parsed->first, parsed->second, false, patience);
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
