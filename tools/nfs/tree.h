// An export as a tree of names: what a path leads to, what a directory holds.
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
  static constexpr size_t kMaxComponents = 1024;     // of a path, with those of its links
  static constexpr size_t kMaxEntries = 10'000'000;  // of a listing: what one can still hold
  static constexpr int kMaxRestarts = 5;             // of a listing that is changed meanwhile

  struct Object {
    nfs::NfsFh3 handle;
    nfs::Fattr3 attributes;
  };
  // A name in a directory; there may be nothing of that name.
  struct Place {
    nfs::NfsFh3 dir;
    std::string name;  // empty: the root itself
    std::string path;  // for messages
  };
  struct Entry {
    std::string name;
    nfs::Fattr3 attributes;
    std::string target;  // of a symbolic link
  };

  // `root` is the handle of `base`, an absolute path at the server, which errors name.
  NfsTree(NfsServer server, const nfs::NfsFh3& root, std::string base)
      : server_(server), root_(root), base_(std::move(base)) {}

  // What stands at `path`, relative to the root. Symbolic links on the way are followed inside the
  // export, and the last only if `follow`. FailedPrecondition for one that leads out of it: an
  // absolute target, or "..".
  absl::StatusOr<Object> Resolve(const std::string& path, bool follow);
  // The directory of the last component of `path`, and that component.
  absl::StatusOr<Place> ResolvePlace(const std::string& path);
  absl::StatusOr<Object> At(const Place& place);
  absl::StatusOr<std::string> ReadLink(const nfs::NfsFh3& link, const std::string& what);

  // What a directory holds, by name, without "." and "..". Begins again when the server says that
  // its cookies are no longer good.
  absl::StatusOr<std::vector<Entry>> List(const Object& dir, const std::string& what);

  // An empty directory only if `directory`, else no directory.
  absl::Status Remove(const Place& place, bool directory);

  const NfsServer& server() const { return server_; }
  const nfs::NfsFh3& root() const { return root_; }
  // How errors call what is at `path`.
  std::string Name(const std::string& path) const;

 private:
  // A path on the way down.
  struct Walk {
    std::vector<Object> dirs;       // from the root to where it stands
    std::vector<std::string> left;  // components, the next one last
    size_t links = 0;
    size_t components = 0;
  };
  // A directory as far as it was read.
  struct Listing {
    std::vector<Entry> entries;
    std::vector<std::string> bare;  // names that came without attributes
    uint64_t cookie = 0;
    nfs::Cookieverf3 verifier = 0;
    bool eof = false;
  };
  absl::StatusOr<Walk> Begin(const std::string& path);
  absl::Status Step(const std::string& name, bool follow, const std::string& what, Walk* walk);
  absl::Status FollowLink(const Object& link, const std::string& what, Walk* walk);
  CallOutcome<Object> Lookup(const nfs::NfsFh3& dir, const std::string& name,
                             const std::string& what);
  // The next page to the end of `listing`.
  CallOutcome<Nothing> NextPage(const Object& dir, const std::string& what, Listing* listing);
  CallOutcome<Nothing> NextPageWithAttributes(const Object& dir, const std::string& what,
                                              Listing* listing);
  CallOutcome<Nothing> NextPageOfNames(const Object& dir, const std::string& what,
                                       Listing* listing);
  absl::Status Complete(const Object& dir, const std::string& what, Listing* listing);

  const NfsServer server_;
  const nfs::NfsFh3 root_;
  const std::string base_;
  bool has_readdirplus_ = true;  // until the server says otherwise
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_TREE_H_
