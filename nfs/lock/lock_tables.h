// The locks on the files of all exports of a server.
#ifndef POLLUX_NFS_LOCK_LOCK_TABLES_H_
#define POLLUX_NFS_LOCK_LOCK_TABLES_H_

#include <map>
#include <set>

#include "nfs/lock/lock_table.h"
#include "nfs/server/served_export.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// Any thread. The work of the exports' storage uses the tables: they outlive the exports.
class LockTables {
 public:
  // `limits`: of each export.
  explicit LockTables(const ServedExports& exports, const LockLimits& limits = {});

  // `served`: one of those exports.
  LockTable& Of(const ServedExport& served) { return tables_.at(&served); }
  // What each client has of locks and shares, in all exports together.
  std::map<LockClient, ClientLocks> Held();
  // Who holds locks of files, or waits for some.
  std::set<LockClient> Holders();
  bool IsHolder(const LockClient& client);
  // Their hosts.
  std::set<Gid> Hosts();

 private:
  std::map<const ServedExport*, LockTable> tables_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_TABLES_H_
