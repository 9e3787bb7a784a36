#include "nfs/server/restart_notifier.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/client/tcp_rpc.h"
#include "nfs/nsm.h"
#include "nfs/server/own_name.h"
#include "rpcrdma/rpcbind.h"
#include "stack/net/address.h"

namespace pollux::nfs {

bool NotifyOfState(const Gid& host, uint32_t state) {
  auto rpcbind = rpcrdma::RpcBind::At(host);
  if (!rpcbind.ok()) return false;
  const auto monitor = rpcbind->Find(kNsmProgram, kNsmV1, host, rpcrdma::RpcBind::Transport::kTcp);
  return monitor.ok() && NotifyOfStateAt(*monitor, state);
}

bool NotifyOfStateAt(const cm::Endpoint& monitor, uint32_t state) {
  const std::string own = OwnName();
  auto rpc =
      TcpRpc::Connect(monitor, kNsmProgram, kNsmV1, {.machinename = {own}},
                      absl::StrCat("the status monitor of ", net::FormatAddress(monitor.address)));
  if (!rpc.ok()) return false;
  Void nothing;
  return rpc
      ->Call(static_cast<uint32_t>(NsmProcedure::kNotify),
             StatChge{.mon_name = {own}, .state = state}, &nothing)
      .ok();
}

RestartNotifier::RestartNotifier(MonitoredHosts* hosts, Notify notify)
    : hosts_(hosts), notify_(std::move(notify)) {
  for (const Gid& host : hosts->before()) waiting_.push_back({.host = host, .due = {}});
  for (size_t i = 0; i < std::min(kThreads, waiting_.size()); ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

RestartNotifier::~RestartNotifier() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void RestartNotifier::Work() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !waiting_.empty()) {
    Waiting next = waiting_.front();
    waiting_.pop_front();
    if (changed_.wait_until(lock, next.due, [this] { return ending_; })) return;
    lock.unlock();
    // A list that cannot be written has the host told once more, at the next start.
    const bool over = notify_(next.host, hosts_->state()) || ++next.tries == kTries;
    if (over) hosts_->Told(next.host).IgnoreError();
    lock.lock();
    if (over) continue;
    next.due = std::chrono::steady_clock::now() + kBetweenTries;
    waiting_.push_back(next);
  }
}

}  // namespace pollux::nfs
