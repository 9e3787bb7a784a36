// The exports of a server, which can be replaced while it runs.
#ifndef POLLUX_NFS_SERVER_SERVED_EXPORT_H_
#define POLLUX_NFS_SERVER_SERVED_EXPORT_H_

#include <memory>
#include <mutex>
#include <optional>
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

// What an export has besides its tree. It exists as long as the server: when its export is removed,
// another one may get it.
struct ServedExport {
  ChangeWatch changes;
  std::unique_ptr<Storage> storage;  // started for the first export; never replaced
};

struct ExportEntry {
  ServedExport* served = nullptr;
  std::shared_ptr<const ExportTree> tree;
};
using ExportTable = std::vector<ExportEntry>;  // immutable once published
using ExportTrees = std::vector<std::shared_ptr<const ExportTree>>;

// Create, change and destroy it on control threads, since these block; the other functions are
// thread-safe, and must not be called on a polled core unless they say so. Every object that uses
// it must be destroyed before it.
class ServedExports {
 public:
  // Returns PermissionDenied, with what is needed, if this process may not act for the users of
  // clients. Call it before anything is opened, because later errors explain less.
  static absl::Status CheckRights();
  // Opens and publishes the exports. Errors: those of HandleKey::Load() and Prepare().
  static absl::StatusOr<std::unique_ptr<ServedExports>> Open(const std::vector<Export>& exports,
                                                             const std::string& key_file);

  // Opens all exports anew: a directory may be on another file system now. Blocks while one of
  // their file systems does not answer. May outlive the ServedExports: give it a copy of key().
  // Errors: InvalidArgument for too many exports or a directory listed twice; those of
  // ExportTree::Open().
  static absl::StatusOr<ExportTrees> OpenTrees(const std::vector<Export>& exports,
                                               const HandleKey& key);
  // Makes the table that is to replace the current exports, from trees that OpenTrees() opened with
  // key(). Errors: those of Storage::Start(); nothing has changed then.
  absl::StatusOr<std::shared_ptr<const ExportTable>> PrepareTrees(const ExportTrees& trees);
  // OpenTrees() and PrepareTrees().
  absl::StatusOr<std::shared_ptr<const ExportTable>> Prepare(const std::vector<Export>& exports);
  // Makes a table from PrepareTrees() the current one for MOUNT, NLM and NSM. Give it to the NFS
  // server first (Server::Serve()), so that clients get no handles that it does not know.
  void Publish(std::shared_ptr<const ExportTable> table);
  // Returns trees that were replaced and that nothing uses any more, each once.
  std::vector<ExportEntry> TakeUnused();

  // At any time, also on a polled core: kMaxServedExports of them, whether they have an export now
  // or not.
  const std::vector<std::unique_ptr<ServedExport>>& all() const { return all_; }
  std::shared_ptr<const ExportTable> table() const;
  // Returns the export with that number, which handles contain; nothing if there is none.
  std::optional<ExportEntry> Find(uint64_t id) const;
  // Whether at least one export admits the client.
  bool Admit(const Gid& client) const;
  // The number of calls over TCP that storage has not finished. Also for a polled core, while no
  // thread calls PrepareTrees().
  size_t control_work() const;
  WriteVerifier* verifier() { return &verifier_; }
  const HandleKey& key() const { return key_; }

 private:
  explicit ServedExports(const HandleKey& key);
  // Returns the place for an export: the one that it has; or one without an export; or one whose
  // export is not in `kept`. `taken` are no choice.
  ServedExport* Place(const ExportTree& tree, const std::vector<uint64_t>& kept,
                      const ExportTable& taken) const;

  HandleKey key_;
  WriteVerifier verifier_;
  std::vector<std::unique_ptr<ServedExport>> all_;
  mutable std::mutex mutex_;  // never locked by a polled core
  std::shared_ptr<const ExportTable> table_;
  std::vector<ExportEntry> replaced_;  // until TakeUnused() returns them
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_SERVED_EXPORT_H_
