// MOUNT version 3: the server's replies. RFC 1813 section 5.
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

// Calls may arrive on any thread; MNT uses the export's storage threads.
class MountCalls {
 public:
  // Mounts are remembered only for DUMP; the oldest are dropped.
  static constexpr size_t kMaxRemembered = 256;
  static constexpr size_t kMaxCallBytes = 4096;  // with the RPC header
  static constexpr oncrpc::ServiceProgram kProgram = {
      .program = kMountProgram, .low = kMountV3, .high = kMountV3};

  // `exports` is not owned and must outlive this object. `log`: see MountRefusals.
  explicit MountCalls(const ServedExports* exports, MountRefusals::Log log = nullptr);

  // Does not block; the call is answered before or after it returns.
  void Serve(oncrpc::ServiceCall call);

 private:
  // The mounts that storage threads report, which may happen after this object is destroyed.
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
  // An empty `path` stands for all of the client's mounts.
  void Unmount(const Gid& client, std::string_view path);
  void Dump(oncrpc::ServiceCall call);
  // The result consists of views of `names`.
  Exports List(std::list<std::string>* names) const;

  const ServedExports* exports_;
  std::shared_ptr<Remembered> remembered_;
  // shared, since storage threads may use it after this object's end
  std::shared_ptr<MountRefusals> refusals_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_MOUNT_MOUNT_CALLS_H_
