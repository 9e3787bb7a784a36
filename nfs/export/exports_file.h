// The file of exports that administrators of Linux's NFS server know: exports(5) of nfs-utils.
#ifndef POLLUX_NFS_EXPORT_EXPORTS_FILE_H_
#define POLLUX_NFS_EXPORT_EXPORTS_FILE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nfs/export/export.h"
#include "stack/base/types.h"

namespace pollux::nfs {

struct ExportsFile {
  std::vector<Export> exports;
  // One line for each option that has no effect, at its first use.
  std::vector<std::string> warnings;
};

// Returns the addresses of a host's name. May block.
using HostResolver = absl::FunctionRef<absl::StatusOr<std::vector<Gid>>(const std::string& name)>;

// Parses the text of a file; `name` is the file's, for messages. Lines for the same directory are
// one export. An option that asks for what the server always does is accepted; one whose effect
// only other servers have gets a warning; one that asks for what this server lacks, such as
// crossmnt or sec=krb5, is an error. Names that match by wildcard or netgroup are errors too.
// InvalidArgument with file, line and reason. An empty file exports nothing. Each name is resolved
// once.
//
// Stricter than nfs-utils: a path without clients, and options without a client, which there stand
// for every client, are errors, since they mostly are a mistake ("HOST (rw)"); so are names that
// the resolver does not know.
absl::StatusOr<ExportsFile> ParseExports(absl::string_view text, absl::string_view name,
                                         HostResolver resolve);
// Reads and parses a file. Errors: of the file system; InvalidArgument if it has more than 1 MiB;
// those of ParseExports().
absl::StatusOr<ExportsFile> ReadExports(const std::string& path, HostResolver resolve);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_EXPORTS_FILE_H_
