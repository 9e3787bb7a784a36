// A client of a server's MOUNT service, which returns the root file handles of exports. RFC 1813
// section 5.
#ifndef POLLUX_NFS_CLIENT_MOUNT_CLIENT_H_
#define POLLUX_NFS_CLIENT_MOUNT_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nfs/v3/handle.h"
#include "oncrpc/auth_sys.h"
#include "oncrpc/stream_client.h"
#include "stack/base/socket_address.h"

namespace pollux::nfs {

// Calls block, as those of oncrpc::StreamClient. Not thread-safe.
class MountClient {
 public:
  // Connects to the MOUNT service, version 3, at `service`. If its port is 0, the host's rpcbind is
  // asked for the port. Errors: those of oncrpc::StreamClient::Connect() and oncrpc::RpcBind.
  static absl::StatusOr<MountClient> Connect(const SocketAddress& service,
                                             const oncrpc::AuthSys& credential);

  // The server's list of exports: absolute paths.
  absl::StatusOr<std::vector<std::string>> Exports();
  // Returns the root handle of an export. Errors: NotFound, PermissionDenied and others, as the
  // server replies; Unimplemented if it accepts neither AUTH_SYS nor AUTH_NONE.
  absl::StatusOr<NfsFh3> Mount(const std::string& path);
  // Removes the entry of Mount() from the server's list, which has no other effect.
  absl::Status Unmount(const std::string& path);

 private:
  explicit MountClient(oncrpc::StreamClient rpc) : rpc_(std::move(rpc)) {}
  oncrpc::StreamClient rpc_;
};

// The longest of `exports` that equals `path` or contains it; empty if there is none. Paths are
// absolute, and "/" contains all.
std::string ExportOf(const std::vector<std::string>& exports, const std::string& path);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_CLIENT_MOUNT_CLIENT_H_
