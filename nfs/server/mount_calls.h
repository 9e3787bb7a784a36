// MOUNT version 3: what each call on its program is answered. RFC 1813 section 5.
#ifndef POLLUX_NFS_SERVER_MOUNT_CALLS_H_
#define POLLUX_NFS_SERVER_MOUNT_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>

#include "absl/types/span.h"
#include "nfs/mount.h"
#include "nfs/server/served_export.h"
#include "rpcrdma/rpc_message.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// One thread's. MNT blocks on the file system.
class MountCalls {
 public:
  // Who mounted what is remembered for DUMP alone; the oldest are forgotten.
  static constexpr size_t kMaxRemembered = 256;
  static constexpr size_t kMaxCallBytes = 4096;         // with its RPC header
  static constexpr size_t kMaxReplyBytes = 512 * 1024;  // kMaxRemembered of the longest

  // `exports` outlives it.
  explicit MountCalls(const ServedExports* exports) : exports_(exports) {}

  // Writes the reply to an RPC message into `reply`, of kMaxReplyBytes, and returns its length; 0
  // when the message is no call, so that nothing can be answered.
  size_t Answer(absl::Span<const uint8_t> message, const Gid& client, absl::Span<uint8_t> reply);

 private:
  struct Mounted {
    std::string host;
    std::string directory;
    friend bool operator==(const Mounted&, const Mounted&) = default;
  };

  rpcrdma::AcceptStatus Serve(uint32_t procedure, absl::Span<const uint8_t> arguments,
                              const Gid& client, absl::Span<uint8_t> results, size_t* bytes);
  MountRes Mount(std::string_view path, const Gid& client);
  Mountlist Dump() const;
  // Its groups are views of `names`.
  Exports List(std::list<std::string>* names) const;

  const ServedExports* exports_;
  std::deque<Mounted> mounted_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_MOUNT_CALLS_H_
