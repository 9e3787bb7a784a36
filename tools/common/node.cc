#include "tools/common/node.h"

#include <array>
#include <bit>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

// Each member of it is one.
using Counts = std::array<uint64_t, sizeof(transport::Counters) / sizeof(uint64_t)>;

}  // namespace

absl::StatusOr<std::unique_ptr<Node>> Node::Start(std::unique_ptr<engine::Device> device,
                                                  const Options& options) {
  std::unique_ptr<Node> node(new Node());
  node->device_ = std::move(device);
  node->telemetry_.emplace(*node->device_);
  if (!options.cpus.empty() && options.cpus.size() != node->cores()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.cpus.size(), " CPUs for ", node->cores(), " workers"));
  }
  std::vector<engine::Worker*> workers;
  for (uint32_t core = 0; core < node->cores(); ++core) workers.push_back(&node->worker(core));
  auto managers = cm::Manager::CreateAll(workers, options.cm);
  if (!managers.ok()) return managers.status();
  node->managers_ = *std::move(managers);
  for (uint32_t core = 0; core < node->cores(); ++core) {
    node->failures_.push_back(std::make_unique<FailureLog>(&node->manager(core), workers[core],
                                                           &node->log_, options.failure_events));
    if (absl::Status status = node->StartThread(core, options); !status.ok()) return status;
  }
  return node;
}

absl::Status Node::StartThread(uint32_t core, const Options& options) {
  engine::Worker* const polled = &worker(core);
  engine::ProgressThread::Options thread;
  if (!options.cpus.empty()) thread.cpu = options.cpus[core];
  thread.policy.idle = options.idle;
  thread.policy.idle_turns = options.idle_turns;
  thread.next_deadline_ns = [polled] { return polled->NextDeadline(); };
  const auto turn = [polled](uint64_t now_ns) { return polled->Poll(now_ns); };
  if (options.shared) shared_poll_ = std::make_unique<engine::SharedPoll>(turn);
  absl::StatusOr<std::unique_ptr<engine::ProgressThread>> started =
      options.shared ? engine::ProgressThread::Start(thread, shared_poll_.get())
                     : engine::ProgressThread::Start(thread, turn);
  if (!started.ok()) return started.status();
  threads_.push_back(*std::move(started));
  stats_providers_.push_back(std::make_unique<ThreadStatsProvider>(threads_.back().get()));
  Run(core, [&] { polled->AddStatsProvider(stats_providers_[core].get()); });
  return absl::OkStatus();
}

bool Node::ThreadStatsProvider::Collect(const StatsQuery& query, pollux::Stats* stats) {
  if (query.topic != "worker") return false;
  stats->Set("sleeps", thread_->sleeps());
  return true;
}

transport::Counters Node::Counters() {
  Counts total{};
  RunOnEach([&](uint32_t core) {
    const auto counts = std::bit_cast<Counts>(worker(core).counters());
    for (size_t i = 0; i < counts.size(); ++i) total[i] += counts[i];
  });
  return std::bit_cast<transport::Counters>(total);
}

Gid Node::FirstReachable(const std::vector<Gid>& addresses) {
  return Run([&] {
    for (const Gid& address : addresses) {
      if (device_->interface().SourceIndex(address).ok()) return address;
    }
    return addresses.front();
  });
}

// All threads first: what is on its way between two of the managers finds both.
void Node::StopPolling() {
  for (const auto& thread : threads_) thread->Stop();
  for (uint32_t core = 0; core < stats_providers_.size(); ++core) {
    worker(core).RemoveStatsProvider(stats_providers_[core].get());
  }
  stats_providers_.clear();
  managers_.clear();
}

Node::~Node() { StopPolling(); }

}  // namespace pollux::tools
