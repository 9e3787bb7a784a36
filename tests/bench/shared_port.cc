#include "tests/bench/shared_port.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "stack/engine/device.h"
#include "stack/engine/polling/progress_thread.h"
#include "tests/bench/stream.h"
#include "tests/bench/verbs_end.h"
#include "tools/bench/core_to_core.h"

namespace pollux::bench {
namespace {

constexpr std::chrono::milliseconds kLook{1};  // the cores are the lanes'

// A core's part: one worker of each end, polled by turns. Both polled by nobody when it ends.
struct Lane {
  Lane(engine::Device* near, engine::Worker& near_worker, engine::Device* far,
       engine::Worker& far_worker)
      : from(near, near_worker), to(far, far_worker) {}
  ~Lane() {
    thread.reset();
    if (sender) from.worker.RemovePoller(&*sender);
    if (receiver) to.worker.RemovePoller(&*receiver);
  }

  // Connects the ends, and has a thread stream from one to the other.
  absl::Status Start(uint32_t number, const StreamOptions& options);
  bool Turn(uint64_t now_ns) {
    const bool near_worked = from.worker.Poll(now_ns);
    const bool worked = to.worker.Poll(now_ns) || near_worked;
    if (sender->finished() && !done.load(std::memory_order_relaxed)) {
      done.store(true, std::memory_order_release);
    }
    return worked;
  }

  VerbsEnd from, to;
  std::optional<StreamSender> sender;
  std::optional<StreamReceiver> receiver;
  std::atomic<bool> done{false};
  std::unique_ptr<engine::ProgressThread> thread;
};

absl::Status Lane::Start(uint32_t number, const StreamOptions& options) {
  absl::Status status = from.Create();
  status.Update(to.Create());
  if (!status.ok()) return status;
  status.Update(from.Connect(to.ToPeer()));
  status.Update(to.Connect(from.ToPeer()));
  if (!status.ok()) return status;
  for (uint32_t i = 0; i < 2 * options.window; ++i) to.Receive();
  from.worker.AddPoller(&sender.emplace(from, to.ToPeer(), options));
  to.worker.AddPoller(&receiver.emplace(to));
  engine::ProgressThread::Options polling;
  polling.policy.idle = engine::Idle::kSpin;
  const std::vector<int> cpus = tools::UsableCpus();
  if (number < cpus.size()) polling.cpu = cpus[number];
  auto started =
      engine::ProgressThread::Start(polling, [this](uint64_t now_ns) { return Turn(now_ns); });
  if (!started.ok()) return started.status();
  thread = *std::move(started);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> SharedPortSendsPerSecond(uint32_t workers, Hops hops, uint32_t bytes,
                                                uint64_t count, uint32_t window) {
  engine::DeviceOptions near, far;
  near.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
  far.addresses = {InterfaceAddress::Ipv4(0xC0000202)};
  near.workers = far.workers = workers;
  absl::StatusOr<engine::Device::Pair> opened = engine::Device::OpenPair(near, far);
  if (!opened.ok()) return opened.status();
  engine::Device& a = *opened->first;
  engine::Device& b = *opened->second;
  std::deque<Lane> lanes;
  absl::Status status;
  for (uint32_t i = 0; i < workers; ++i) {
    const uint32_t to = hops == Hops::kNone ? i : (i + 1) % workers;
    lanes.emplace_back(&a, a.worker(i), &b, b.worker(to));
  }
  for (uint32_t i = 0; i < workers && status.ok(); ++i) {
    status = lanes[i].Start(i, {.bytes = bytes, .count = count, .window = window});
  }
  double sum = 0;
  for (const Lane& lane : lanes) {
    // All go on until the last is done: each passes on what is another's.
    while (status.ok() && !lane.done.load(std::memory_order_acquire)) {
      std::this_thread::sleep_for(kLook);
    }
    if (status.ok()) sum += lane.sender->PerSecond();
  }
  for (Lane& lane : lanes) lane.thread.reset();
  lanes.clear();
  b.Close();
  a.Close();
  if (!status.ok()) return status;
  return sum;
}

}  // namespace pollux::bench
