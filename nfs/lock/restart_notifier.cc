#include "nfs/lock/restart_notifier.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/lock/nsm.h"
#include "nfs/lock/own_name.h"
#include "oncrpc/rpcbind.h"
#include "oncrpc/stream_client.h"
#include "stack/base/address.h"

namespace pollux::nfs {

bool NotifyOfState(const Gid& host, uint32_t state) {
  auto rpcbind = oncrpc::RpcBind::At(host);
  if (!rpcbind.ok()) return false;
  const auto monitor = rpcbind->Find(kNsmProgram, kNsmV1, host, oncrpc::RpcBind::Transport::kTcp);
  return monitor.ok() && NotifyOfStateAt(*monitor, state);
}

bool NotifyOfStateAt(const SocketAddress& monitor, uint32_t state) {
  const std::string own = OwnName();
  auto rpc = oncrpc::StreamClient::Connect(
      monitor, kNsmProgram, kNsmV1, {.machinename = {own}},
      absl::StrCat("the status monitor of ", FormatAddress(monitor.address)));
  if (!rpc.ok()) return false;
  oncrpc::Void nothing;
  return rpc
      ->Call(static_cast<uint32_t>(NsmProcedure::kNotify),
             StatChge{.mon_name = {own}, .state = state}, &nothing)
      .ok();
}

RestartNotifier::RestartNotifier(MonitoredHosts* hosts, Notify notify)
    : hosts_(hosts), notify_(std::move(notify)) {
  for (const Gid& host : hosts->before()) {
    untold_.emplace(std::chrono::steady_clock::time_point(), Untold{.host = host});
  }
  const size_t threads = std::min(untold_.size(), kMaxThreads);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
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
  while (!ending_ && !untold_.empty()) {
    const auto first = untold_.begin();
    if (const auto at = first->first; std::chrono::steady_clock::now() < at) {
      changed_.wait_until(lock, at, [this] { return ending_; });
      continue;
    }
    Untold next = first->second;
    untold_.erase(first);
    lock.unlock();
    const bool over = notify_(next.host, hosts_->state()) || ++next.tries == kTries;
    // A list that cannot be written has the host told once more, at the next start.
    if (over) hosts_->Told(next.host).IgnoreError();
    lock.lock();
    if (!over) untold_.emplace(std::chrono::steady_clock::now() + kBetweenTries, next);
  }
}

}  // namespace pollux::nfs
