// MOUNT version 3: what each call on its program is answered. RFC 1813 section 5.
#ifndef POLLUX_NFS_MOUNT_MOUNT_CALLS_H_
#define POLLUX_NFS_MOUNT_MOUNT_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "nfs/mount/mount.h"
#include "nfs/mount/mount_refusals.h"
#include "nfs/server/served_export.h"
#include "oncrpc/service_call.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// Calls come by any thread; MNT meets the file system on the export's own threads.
class MountCalls {
 public:
  // Who mounted what is remembered for DUMP alone; the oldest are forgotten.
  static constexpr size_t kMaxRemembered = 256;
  static constexpr size_t kMaxCallBytes = 4096;  // with its RPC header
  static constexpr oncrpc::ServiceProgram kProgram = {
      .program = kMountProgram, .low = kMountV3, .high = kMountV3};

  // `exports` outlives it. `log`: see MountRefusals.
  explicit MountCalls(const ServedExports* exports, MountRefusals::Log log = nullptr);

  // Waits for nothing; the call is answered then or later.
  void Serve(oncrpc::ServiceCall call);

 private:
  // What has been mounted, as storage threads, which may come late, tell it.
  struct Remembered {
    struct Mounted {
      std::string host;
      std::string directory;
      friend bool operator==(const Mounted&, const Mounted&) = default;
    };
    std::mutex mutex;
    std::deque<Mounted> mounted;

    void Add(Mounted one);
  };

  static MountRes Find(const ExportTree& tree, std::string_view path);
  void Mount(oncrpc::ServiceCall call);
  // `path`: empty for all of the client's.
  void Unmount(const Gid& client, std::string_view path);
  void Dump(oncrpc::ServiceCall call);
  // Its groups are views of `names`.
  Exports List(std::list<std::string>* names) const;

  const ServedExports* exports_;
  std::shared_ptr<Remembered> remembered_;
  std::shared_ptr<MountRefusals> refusals_;  // as storage threads, which may come late, tell it
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_MOUNT_MOUNT_CALLS_H_
