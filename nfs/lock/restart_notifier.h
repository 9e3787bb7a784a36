// Tells hosts that held locks that this server has started anew, so that they ask for them again.
// Source: The Open Group's XNFS (C702) chapter 11.
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

// NSM's SM_NOTIFY of this host in this state: by TCP to the status monitor that the host's rpcbind
// names. Whether it was heard. Blocks, for seconds.
bool NotifyOfState(const Gid& host, uint32_t state);
// The same of a status monitor that is found.
bool NotifyOfStateAt(const SocketAddress& monitor, uint32_t state);

// Tells MonitoredHosts::before(), each host until it has heard or kTries are over, by threads that
// do nothing but wait: the time in which a host may ask for its locks runs, and those that are
// silent are not to use up any of the others', unless there are kMaxThreads of them.
class RestartNotifier {
 public:
  static constexpr size_t kMaxThreads = 1024;
  static constexpr int kTries = 60;
  static constexpr std::chrono::seconds kBetweenTries{15};

  // Whether the host has heard. On several threads at once; blocks.
  using Notify = absl::AnyInvocable<bool(const Gid& host, uint32_t state) const>;

  // `hosts` outlives it.
  RestartNotifier(MonitoredHosts* hosts, Notify notify);
  // Waits for those that are being told.
  ~RestartNotifier();
  RestartNotifier(const RestartNotifier&) = delete;
  RestartNotifier& operator=(const RestartNotifier&) = delete;

 private:
  struct Untold {
    Gid host;
    int tries = 0;
  };
  // One host after the other, until there are none.
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
