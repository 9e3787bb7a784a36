// What goes with NFS over the kernel's TCP and UDP: MOUNT, NLM, NSM and, where this host has no
// rpcbind, the portmapper.
#ifndef POLLUX_TOOLS_POLLUX_NFSD_CONTROL_H_
#define POLLUX_TOOLS_POLLUX_NFSD_CONTROL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nfs/lock/lock_calls.h"
#include "nfs/lock/monitored_hosts.h"
#include "nfs/lock/restart_notifier.h"
#include "nfs/lock/status_calls.h"
#include "nfs/mount/mount_calls.h"
#include "nfs/server/served_export.h"
#include "oncrpc/portmap_calls.h"
#include "oncrpc/tcp_service.h"
#include "oncrpc/udp_service.h"
#include "stack/engine/operator_command.h"
#include "tools/common/registration.h"

namespace pollux::tools {

struct ControlOptions {
  uint64_t service_port = 0;  // of NFS, by RDMA
  uint64_t mount_port = 0;
  uint64_t lock_port = 0;
  uint64_t status_port = 0;
  uint64_t grace_s = 0;
  bool rpcbind = false;  // this host runs one, which is told
};

// Serves on threads of its own while it lives. Made and destroyed on a control thread: both block.
class NfsdControl {
 public:
  // Takes a line without its end. Any thread; must not wait.
  using Log = std::function<void(const std::string& line)>;
  // `exports` outlives it; `tables`, theirs, and `hosts` outlive `exports`; what `log` uses
  // outlives the work that it has given to the exports' storage. AlreadyExists, with the option to
  // use, when a port is taken.
  static absl::StatusOr<std::unique_ptr<NfsdControl>> Start(const ControlOptions& options,
                                                            const nfs::ServedExports* exports,
                                                            nfs::LockTables* tables,
                                                            nfs::MonitoredHosts* hosts, Log log);

  // Tells this host's rpcbind of all of it, if `options` has one, and of NFS; and begins to tell
  // hosts that held locks that they may ask for them again. Errors as Registration.
  absl::Status Announce(std::vector<SocketAddress> endpoints);

  // Whether clients that ask TCP port 111 here find MOUNT and NLM.
  bool found() const { return options_.rpcbind || portmap_.tcp != nullptr; }
  // Whether another status monitor of this host is told of clients that start anew.
  bool is_status_elsewhere() const { return is_status_elsewhere_; }
  // Datagrams that there was no room for.
  uint64_t dropped_datagrams() const;

 private:
  // A program at one port.
  struct Service {
    std::unique_ptr<oncrpc::TcpService> tcp;
    std::unique_ptr<oncrpc::UdpService> udp;
  };

  NfsdControl(const ControlOptions& options, const nfs::ServedExports* exports,
              nfs::LockTables* tables, nfs::MonitoredHosts* hosts, Log log)
      : options_(options),
        exports_(exports),
        tables_(tables),
        hosts_(hosts),
        log_(std::move(log)) {}
  template <class Calls>
  static absl::StatusOr<Service> Serve(Calls* calls, uint64_t port, const char* what,
                                       const char* see);
  absl::Status StartServices();
  absl::Status StartPortmap();
  // What `pollux locks` asks.
  void OfferLocks();
  absl::Status Register(uint32_t program, uint32_t version, uint64_t port,
                        std::vector<SocketAddress> endpoints);
  // Whether a status monitor other than this is registered.
  absl::StatusOr<bool> HasMonitor(const std::vector<SocketAddress>& endpoints) const;

  ControlOptions options_;
  const nfs::ServedExports* exports_;
  nfs::LockTables* tables_;
  nfs::MonitoredHosts* hosts_;
  const Log log_;
  bool is_status_elsewhere_ = false;
  std::unique_ptr<nfs::MountCalls> mount_calls_;
  std::unique_ptr<nfs::LockCalls> lock_calls_;
  std::unique_ptr<nfs::StatusCalls> status_calls_;
  std::unique_ptr<oncrpc::PortmapCalls> portmap_calls_;
  Service mount_, locks_, status_, portmap_;
  std::unique_ptr<nfs::RestartNotifier> notifier_;
  std::vector<std::unique_ptr<Registration>> registered_;
  // They use the others.
  std::unique_ptr<engine::OperatorCommand> list_locks_, drop_locks_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_NFSD_CONTROL_H_
