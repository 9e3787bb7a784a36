#include "tools/node.h"

#include "tools/failure_log.h"

namespace pollux::tools {

absl::StatusOr<std::unique_ptr<Node>> Node::Start(std::unique_ptr<engine::Device> device,
                                                  const Options& options) {
  std::unique_ptr<Node> node(new Node());
  node->device_ = std::move(device);
  engine::Worker* worker = &node->device_->worker();
  absl::StatusOr<std::unique_ptr<cm::Manager>> manager = cm::Manager::Create(worker, options.cm);
  if (!manager.ok()) return manager.status();
  node->manager_ = *std::move(manager);
  LogFailures(node->manager_.get(), worker);
  engine::PollThread::Options thread;
  thread.cpu = options.cpu;
  thread.poll.idle = options.idle;
  thread.poll.idle_turns = options.idle_turns;
  thread.poll.next_deadline_ns = [worker] { return worker->NextDeadline(); };
  const auto turn = [worker](uint64_t now_ns) { return worker->Poll(now_ns); };
  absl::AnyInvocable<bool(uint64_t)> poll = turn;
  if (options.shared) {
    node->driver_ = std::make_unique<engine::Driver>(turn);
    poll = [driver = node->driver_.get()](uint64_t now_ns) { return driver->TakeTurn(now_ns); };
  }
  absl::StatusOr<std::unique_ptr<engine::PollThread>> started =
      engine::PollThread::Start(thread, std::move(poll));
  if (!started.ok()) return started.status();
  node->thread_ = *std::move(started);
  node->Run([&node, worker] { worker->AddReporter(&node->reporter_); });
  return node;
}

bool Node::ThreadReporter::Tell(const engine::Question& question, engine::Report* report) {
  if (question.topic != "worker") return false;
  report->Set("sleeps", node_->thread_->sleeps());
  return true;
}

void Node::StopPolling() {
  if (thread_ != nullptr) thread_->Stop();
  device_->worker().RemoveReporter(&reporter_);
  manager_.reset();
}

Node::~Node() { StopPolling(); }

}  // namespace pollux::tools
