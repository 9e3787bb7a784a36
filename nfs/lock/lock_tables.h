// The lock tables of all exports of a server.
#ifndef POLLUX_NFS_LOCK_LOCK_TABLES_H_
#define POLLUX_NFS_LOCK_LOCK_TABLES_H_

#include <map>
#include <set>

#include "nfs/lock/lock_table.h"
#include "nfs/server/served_export.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// Thread-safe. Storage threads use the tables, so they must outlive the exports.
class LockTables {
 public:
  // `limits`: of each export.
  explicit LockTables(const ServedExports& exports, const LockLimits& limits = {});

  // The table of one of exports.all().
  LockTable& Of(const ServedExport& served) { return tables_.at(&served); }
  // Locks and shares of each client, summed over all exports.
  std::map<LockClient, ClientLocks> Held();
  // Clients that hold locks of files or wait for some.
  std::set<LockClient> Holders();
  bool IsHolder(const LockClient& client);
  // The hosts of Holders().
  std::set<Gid> Hosts();
  // Closes the trees that no call uses any more after their exports were replaced, and frees the
  // locks in exports that were removed, so that their file systems can be unmounted. On a control
  // thread; the exports are those of the constructor.
  void CloseRemoved(ServedExports* exports);

 private:
  std::map<const ServedExport*, LockTable> tables_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_TABLES_H_
