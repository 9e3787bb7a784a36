// An export's root file handle, from the MOUNT service of its server.
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

// Blocks as oncrpc::StreamClient does.
class MountClient {
 public:
  // Connects to the MOUNT service, version 3, at `service`; where its port is 0, at the port that
  // the host's rpcbind names. Errors as oncrpc::StreamClient::Connect and rpcrdma::RpcBind.
  static absl::StatusOr<MountClient> Connect(const SocketAddress& service,
                                             const oncrpc::AuthSys& credential);

  // What the server exports, as it tells: absolute paths.
  absl::StatusOr<std::vector<std::string>> Exports();
  // The root of an export. NotFound, PermissionDenied and so on, as the server answers;
  // Unimplemented when it wants another flavor than AUTH_SYS or AUTH_NONE.
  absl::StatusOr<NfsFh3> Mount(const std::string& path);
  // Takes the entry of Mount() out of the server's list; nothing else depends on it.
  absl::Status Unmount(const std::string& path);

 private:
  explicit MountClient(oncrpc::StreamClient rpc) : rpc_(std::move(rpc)) {}
  oncrpc::StreamClient rpc_;
};

// The longest of `exports` that is `path` or holds it; empty when there is none. Paths are
// absolute, and "/" holds all.
std::string ExportOf(const std::vector<std::string>& exports, const std::string& path);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_CLIENT_MOUNT_CLIENT_H_
