// A connection to an NFS server, and the root of one of its exports.
#ifndef POLLUX_TOOLS_POLLUX_NFS_REMOTE_H_
#define POLLUX_TOOLS_POLLUX_NFS_REMOTE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nfs/client/client.h"
#include "nfs/client/mount_client.h"
#include "oncrpc/auth_sys.h"
#include "tools/common/node.h"
#include "tools/common/options.h"
#include "tools/nfs/tree.h"
#include "tools/nfs/url.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {

struct NfsOptions : ClientOptions {
  std::optional<SocketAddress> mount;  // the MOUNT service; nothing: ask the server's rpcbind
  std::optional<uint64_t> uid, gid;    // the user of the calls; nothing: that of this process
  bool hard = false;                   // wait for an unreachable server without limit
};
// Declares the client options, --mount, --uid, --gid and --hard.
void DeclareNfsOptions(Options& options, NfsOptions* nfs);

// The destructor unmounts, disconnects (DREQ) and stops the node.
class NfsRemote {
 public:
  // Finds the export that contains the URL's path, mounts it (MOUNT version 3 over the kernel's
  // TCP) and connects. NotFound, with a list of the exports, if none contains the path.
  static absl::StatusOr<std::unique_ptr<NfsRemote>> Connect(const NfsOptions& options,
                                                            const NfsUrl& url);
  ~NfsRemote();
  NfsRemote(const NfsRemote&) = delete;
  NfsRemote& operator=(const NfsRemote&) = delete;

  Node& node() { return *node_; }
  NfsTree& tree() { return *tree_; }
  // The URL's path below the export.
  const std::string& path() const { return path_; }

 private:
  NfsRemote() = default;
  absl::StatusOr<nfs::NfsFh3> Mount(const NfsOptions& options, const Gid& server,
                                    const std::string& path);
  absl::Status ConnectNfs(const NfsOptions& options, const SocketAddress& server);

  std::string machine_name_;
  oncrpc::AuthSys credential_;  // points to machine_name_
  std::unique_ptr<Node> node_;
  std::optional<nfs::MountClient> mount_;
  std::string export_;
  std::string path_;
  std::unique_ptr<nfs::Client> client_;
  std::unique_ptr<NfsTree> tree_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_NFS_REMOTE_H_
