#include "nfs/lock/restart_notifier.h"

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
    threads_.emplace_back([this, &host] { Tell(host); });
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

void RestartNotifier::Tell(const Gid& host) {
  for (int tries = 0; tries < kTries && !notify_(host, hosts_->state()); ++tries) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kBetweenTries, [this] { return ending_; })) return;
  }
  // A list that cannot be written has the host told once more, at the next start.
  hosts_->Told(host).IgnoreError();
}

}  // namespace pollux::nfs
