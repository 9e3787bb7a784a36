// Names in an export: resolves paths and lists directories.
#ifndef POLLUX_TOOLS_NFS_TREE_H_
#define POLLUX_TOOLS_NFS_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nfs/v3/attributes.h"
#include "nfs/v3/handle.h"
#include "nfs/v3/listing.h"
#include "tools/nfs/calls.h"

namespace pollux::tools {

class NfsTree {
 public:
  static constexpr size_t kMaxLinks = 40;            // symbolic links followed in one path
  static constexpr size_t kMaxComponents = 1024;     // in one path, including those of its links
  static constexpr size_t kMaxEntries = 10'000'000;  // in one listing, for bounded memory
  static constexpr int kMaxRestarts = 5;  // of a listing whose directory changes meanwhile

  struct Object {
    nfs::NfsFh3 handle;
    nfs::Fattr3 attributes;
  };
  // A name in a directory; no object of that name need exist.
  struct Place {
    nfs::NfsFh3 dir;
    std::string name;  // empty: the root itself
    std::string path;  // for messages
  };
  struct Entry {
    std::string name;
    nfs::Fattr3 attributes;
    std::string target;  // for a symbolic link
  };

  // `root` is the handle of `base`, an absolute path on the server, which is used in error
  // messages.
  NfsTree(NfsServer server, const nfs::NfsFh3& root, std::string base)
      : server_(server), root_(root), base_(std::move(base)) {}

  // Returns the object at `path`, relative to the root. Symbolic links are followed inside the
  // export, a link in the last component only if `follow`. FailedPrecondition for a link that leads
  // out of the export: an absolute target, or "..".
  absl::StatusOr<Object> Resolve(const std::string& path, bool follow);
  // Returns the directory of the last component of `path`, and that component.
  absl::StatusOr<Place> ResolvePlace(const std::string& path);
  absl::StatusOr<Object> At(const Place& place);
  absl::StatusOr<std::string> ReadLink(const nfs::NfsFh3& link, const std::string& what);

  // Returns the entries of a directory, sorted by name, without "." and "..". Starts again if the
  // server reports that its cookies are no longer valid.
  absl::StatusOr<std::vector<Entry>> List(const Object& dir, const std::string& what);

  // Removes an empty directory if `directory` is true, otherwise an object that is not a directory.
  absl::Status Remove(const Place& place, bool directory);

  const NfsServer& server() const { return server_; }
  const nfs::NfsFh3& root() const { return root_; }
  // The name of the object at `path` in error messages.
  std::string Name(const std::string& path) const;

 private:
  // The state while a path is resolved.
  struct Walk {
    std::vector<Object> dirs;       // from the root to the current directory
    std::vector<std::string> left;  // components, the next one last
    size_t links = 0;
    size_t components = 0;
  };
  // The part of a directory that was read so far.
  struct Listing {
    std::vector<Entry> entries;
    std::vector<std::string> bare;  // names returned without attributes
    uint64_t cookie = 0;
    nfs::Cookieverf3 verifier = 0;
    bool eof = false;
  };
  absl::StatusOr<Walk> Begin(const std::string& path);
  absl::Status Step(const std::string& name, bool follow, const std::string& what, Walk* walk);
  absl::Status FollowLink(const Object& link, const std::string& what, Walk* walk);
  CallOutcome<Object> Lookup(const nfs::NfsFh3& dir, const std::string& name,
                             const std::string& what);
  // Appends the next page to `listing`.
  CallOutcome<Nothing> NextPage(const Object& dir, const std::string& what, Listing* listing);
  CallOutcome<Nothing> NextPageWithAttributes(const Object& dir, const std::string& what,
                                              Listing* listing);
  CallOutcome<Nothing> NextPageOfNames(const Object& dir, const std::string& what,
                                       Listing* listing);
  absl::Status Complete(const Object& dir, const std::string& what, Listing* listing);

  const NfsServer server_;
  const nfs::NfsFh3 root_;
  const std::string base_;
  bool has_readdirplus_ = true;  // until the server rejects READDIRPLUS
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_TREE_H_
