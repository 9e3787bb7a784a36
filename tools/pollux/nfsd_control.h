// The services that accompany NFS over the kernel's TCP and UDP: MOUNT, NLM, NSM and, if this host
// has no rpcbind, the portmapper.
#ifndef POLLUX_TOOLS_POLLUX_NFSD_CONTROL_H_
#define POLLUX_TOOLS_POLLUX_NFSD_CONTROL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nfs/lock/lock_calls.h"
#include "nfs/lock/lock_table.h"
#include "nfs/lock/monitored_hosts.h"
#include "nfs/lock/restart_notifier.h"
#include "nfs/lock/status_calls.h"
#include "nfs/mount/mount_calls.h"
#include "nfs/server/served_export.h"
#include "oncrpc/portmap_calls.h"
#include "oncrpc/tcp_service.h"
#include "oncrpc/udp_service.h"
#include "stack/base/stats.h"
#include "stack/engine/operator_command.h"
#include "tools/common/log_format.h"
#include "tools/common/registration.h"

namespace pollux::tools {

struct ControlOptions {
  uint64_t service_port = 0;  // of NFS over RDMA
  uint64_t mount_port = 0;
  uint64_t lock_port = 0;
  uint64_t status_port = 0;
  uint64_t grace_s = 0;
  bool rpcbind = false;  // this host runs one; register the services there
};

// The reply to the telemetry command kLocksTopic: a line for each client. If they do not all fit
// into a reply, the last line has the address "-", the number of the clients that are not listed as
// its name, and the sums of their locks.
pollux::Stats ListLocks(const std::map<nfs::LockClient, nfs::ClientLocks>& held);

// Serves on its own threads from creation to destruction. Create and destroy it on a control
// thread, since both block.
class NfsdControl {
 public:
  // Receives a line without its newline. Called on any thread; must not block.
  using Log = std::function<void(LogLevel level, const std::string& line)>;
  // `exports` must outlive this object. `tables`, the lock tables of `exports`, and `hosts` must
  // outlive `exports`. The objects that `log` uses must exist until all work in the exports'
  // storage is done. AlreadyExists if a port is in use; the message names the option for another.
  static absl::StatusOr<std::unique_ptr<NfsdControl>> Start(const ControlOptions& options,
                                                            const nfs::ServedExports* exports,
                                                            nfs::LockTables* tables,
                                                            nfs::MonitoredHosts* hosts, Log log);

  // Registers all services and NFS with this host's rpcbind if ControlOptions::rpcbind is set, and
  // starts to notify hosts that held locks, so that they reclaim them. MOUNT and NLM of another
  // running service keep their registrations, with a warning; so does another running status
  // monitor (see is_status_elsewhere()). Errors as Registration::Make().
  absl::Status Announce(const std::vector<SocketAddress>& endpoints);

  // Whether clients find this MOUNT, and this NLM, at TCP port 111 of this host.
  bool is_mount_found() const { return is_portmapped() && !is_mount_elsewhere_; }
  bool is_nlm_found() const { return is_portmapped() && !is_nlm_elsewhere_; }
  // Whether another status monitor of this host receives the notifications of restarted clients.
  bool is_status_elsewhere() const { return is_status_elsewhere_; }
  // Datagrams that were dropped (oncrpc::UdpService::dropped()).
  uint64_t dropped_datagrams() const;

 private:
  // One program at one port.
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
  // Offers the telemetry commands for `pollux locks`.
  void OfferLocks();
  bool is_portmapped() const { return options_.rpcbind || portmap_.tcp != nullptr; }
  absl::Status Register(uint32_t program, uint32_t version, uint64_t port);
  // Registers the program unless another running service has it; then it warns, and sets
  // `*is_elsewhere`. `name` is the program's, `option` that of its port.
  absl::Status RegisterUnlessElsewhere(uint32_t program, uint32_t version, uint64_t port,
                                       const char* name, const char* option, bool* is_elsewhere);

  ControlOptions options_;
  const nfs::ServedExports* exports_;
  nfs::LockTables* tables_;
  nfs::MonitoredHosts* hosts_;
  const Log log_;
  bool is_mount_elsewhere_ = false, is_nlm_elsewhere_ = false, is_status_elsewhere_ = false;
  std::unique_ptr<nfs::MountCalls> mount_calls_;
  std::unique_ptr<nfs::LockCalls> lock_calls_;
  std::unique_ptr<nfs::StatusCalls> status_calls_;
  std::unique_ptr<oncrpc::PortmapCalls> portmap_calls_;
  Service mount_, locks_, status_, portmap_;
  std::unique_ptr<nfs::RestartNotifier> notifier_;
  std::vector<std::unique_ptr<Registration>> registered_;
  // These use the members above, so they are destroyed first.
  std::unique_ptr<engine::OperatorCommand> list_locks_, drop_locks_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_NFSD_CONTROL_H_
