#include "tools/exporter/sample.h"

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/stat/process_stat.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

absl::StatusOr<Json> Gather(TelemetryClient& process, bool connections) {
  absl::StatusOr<Json> stat = GatherStat(process, /*queue_pairs=*/false);
  if (!stat.ok() || !connections) return stat;
  absl::StatusOr<Json> more = GatherConnections(process, /*recorders=*/false);
  // A process that has told its counters is not silent, even if its connections are not read in
  // time. A request for the counters alone may share this sample.
  if (absl::IsDeadlineExceeded(more.status())) return stat;
  if (!more.ok()) return more.status();
  (*stat)["connections"] = std::move((*more)["connections"]);
  return stat;
}

Json Silent(uint64_t pid, const std::string& file_prefix, absl::string_view reason) {
  return {{"pid", pid}, {"file_prefix", file_prefix}, {"reason", std::string(reason)}};
}

}  // namespace

Json TakeSample(const ProcessChoice& choice, bool connections) {
  const Clock::time_point start = Clock::now();
  Json sample = {
      {"time_ms",
       std::chrono::duration_cast<std::chrono::milliseconds>(start.time_since_epoch()).count()},
      {"duration_ns", 0},
      {"processes", Json::array()},
      {"silent", Json::array()}};
  std::mutex mutex;
  std::map<const TelemetryClient*, absl::StatusOr<Json>> gathered;
  const absl::StatusOr<Processes> found = LookForProcesses(choice, [&](TelemetryClient& process) {
    absl::StatusOr<Json> one = Gather(process, connections);
    const std::lock_guard lock(mutex);
    gathered.emplace(&process, std::move(one));
  });
  if (!found.ok()) {
    sample["error"] = std::string(found.status().message());
    return sample;
  }
  for (const SilentProcess& one : found->silent) {
    sample["silent"].push_back(Silent(one.pid, one.file_prefix, one.reason));
  }
  for (const auto& process : found->answering) {
    absl::StatusOr<Json>& one = gathered.at(process.get());
    if (one.ok()) {
      sample["processes"].push_back(*std::move(one));
    } else if (!absl::IsUnavailable(one.status())) {
      sample["silent"].push_back(
          Silent(process->pid(), process->file_prefix(), one.status().message()));
    }
  }
  const auto duration = Clock::now() - start;
  sample["duration_ns"] =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  return sample;
}

std::shared_ptr<const Json> Sampler::Sample(bool connections) {
  std::unique_lock lock(mutex_);
  const uint64_t first = begun_ + 1;
  for (;;) {
    if (with_connections_.number >= first) return with_connections_.sample;
    if (!connections && without_connections_.number >= first) return without_connections_.sample;
    if (!sampling_) break;
    ++waiting_;
    ended_.wait(lock);
    --waiting_;
  }
  sampling_ = true;
  const uint64_t number = ++begun_;
  lock.unlock();
  auto sample = std::make_shared<const Json>(take_(connections));
  lock.lock();
  (connections ? with_connections_ : without_connections_) = {number, sample};
  sampling_ = false;
  ended_.notify_all();
  return sample;
}

size_t Sampler::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

}  // namespace pollux::tools
