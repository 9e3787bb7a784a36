// The exports of a server, open, each with the threads that meet its file system.
#ifndef POLLUX_NFS_SERVER_SERVED_EXPORT_H_
#define POLLUX_NFS_SERVER_SERVED_EXPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nfs/export/change_watch.h"
#include "nfs/export/export.h"
#include "nfs/export/export_tree.h"
#include "nfs/export/file_handle.h"
#include "nfs/procedures/call_context.h"
#include "nfs/storage/storage.h"

namespace pollux::nfs {

struct ServedExport {
  std::unique_ptr<ExportTree> tree;
  ChangeWatch changes;
  std::unique_ptr<Storage> storage;  // its threads use the others: it goes first
};

// Made and destroyed on a control thread: both block. What serves from it goes first.
class ServedExports {
 public:
  // PermissionDenied, with what it needs, when this process may not act for the users of clients:
  // to be asked before anything is opened, since what fails then says less.
  static absl::Status CheckRights();
  // InvalidArgument for none, too many, or one directory twice; errors of HandleKey::Load,
  // ExportTree::Open and Storage::Start.
  static absl::StatusOr<std::unique_ptr<ServedExports>> Open(const std::vector<Export>& exports,
                                                             const std::string& key_file);

  const std::vector<std::unique_ptr<ServedExport>>& all() const { return exports_; }
  // The export of that number in handles; null for none.
  ServedExport* Find(uint64_t id) const;
  // Whether one of them is for that client.
  bool Admit(const Gid& client) const;
  // Calls by TCP that storage has not answered.
  size_t control_work() const;
  WriteVerifier* verifier() { return &verifier_; }

 private:
  explicit ServedExports(const HandleKey& key);

  HandleKey key_;
  WriteVerifier verifier_;
  std::vector<std::unique_ptr<ServedExport>> exports_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_SERVED_EXPORT_H_
