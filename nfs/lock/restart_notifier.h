// Notifies hosts that held locks that this server has restarted, so that they reclaim them. Source:
// The Open Group's XNFS (C702) chapter 11.
#ifndef POLLUX_NFS_LOCK_RESTART_NOTIFIER_H_
#define POLLUX_NFS_LOCK_RESTART_NOTIFIER_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "nfs/lock/monitored_hosts.h"
#include "stack/base/socket_address.h"

namespace pollux::nfs {

// Sends NSM's SM_NOTIFY with this host's state over TCP to the status monitor that the other host's
// rpcbind names. Returns whether it was received. Blocks, for seconds.
bool NotifyOfState(const Gid& host, uint32_t state);
// As NotifyOfState(), for a known status monitor.
bool NotifyOfStateAt(const SocketAddress& monitor, uint32_t state);

// Notifies MonitoredHosts::before(), each host until it replies or kTries attempts have failed.
// Each host has a thread of its own, at most kMaxThreads, which mostly waits: the
// grace period is limited, and a silent host must not use up the time of others.
class RestartNotifier {
 public:
  static constexpr size_t kMaxThreads = 1024;
  static constexpr int kTries = 60;
  static constexpr std::chrono::seconds kBetweenTries{15};

  // Returns whether the host has replied. Called on several threads at once; may block.
  using Notify = absl::AnyInvocable<bool(const Gid& host, uint32_t state) const>;

  // `hosts` is not owned and must outlive this object.
  RestartNotifier(MonitoredHosts* hosts, Notify notify);
  // Stops the attempts and waits for those in progress.
  ~RestartNotifier();
  RestartNotifier(const RestartNotifier&) = delete;
  RestartNotifier& operator=(const RestartNotifier&) = delete;

 private:
  struct Untold {
    Gid host;
    int tries = 0;
  };
  // Notifies one host after the other until none is left.
  void Work();

  MonitoredHosts* hosts_;
  Notify notify_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::multimap<std::chrono::steady_clock::time_point, Untold> untold_;  // by when to try next
  std::vector<std::thread> threads_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_RESTART_NOTIFIER_H_
