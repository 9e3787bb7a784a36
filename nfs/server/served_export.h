// The open exports of a server, each with its storage threads.
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
  std::unique_ptr<Storage> storage;  // its threads use the others, so it is destroyed first
};

// Create and destroy it on a control thread, since both block. Every object that uses it must be
// destroyed before it.
class ServedExports {
 public:
  // Returns PermissionDenied, with what is needed, if this process may not act for the users of
  // clients. Call it before anything is opened, because later errors explain less.
  static absl::Status CheckRights();
  // Opens the exports. Errors: InvalidArgument for none, too many, or a directory listed twice;
  // those of HandleKey::Load(), ExportTree::Open() and Storage::Start().
  static absl::StatusOr<std::unique_ptr<ServedExports>> Open(const std::vector<Export>& exports,
                                                             const std::string& key_file);

  const std::vector<std::unique_ptr<ServedExport>>& all() const { return exports_; }
  // Returns the export with that number, which handles contain; null if there is none.
  ServedExport* Find(uint64_t id) const;
  // Whether at least one export admits the client.
  bool Admit(const Gid& client) const;
  // The number of calls over TCP that storage has not finished.
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
