// Whole files between this host and an NFS server.
#ifndef POLLUX_TOOLS_NFS_TRANSFER_H_
#define POLLUX_TOOLS_NFS_TRANSFER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/common/progress.h"
#include "tools/nfs/tree.h"

namespace pollux::tools {

// How the server wants files moved.
struct NfsLimits {
  uint32_t read_bytes = 0;   // of one READ: rtmax, at most nfs::kMaxFileData
  uint32_t write_bytes = 0;  // of one WRITE: wtmax, likewise
  int in_flight = 1;         // calls at once: what it grants, at most kMaxInFlight
};
// Of buffers as large as a READ.
inline constexpr int kMaxInFlight = 16;

// FSINFO of the root. DataLoss when it allows no READ or no WRITE.
absl::StatusOr<NfsLimits> AskLimits(const NfsTree& tree);

struct NfsTransfer {
  absl::Status status;
  uint64_t bytes = 0;
  double seconds = 0;
  std::string sha256;  // of the bytes moved, hexadecimal

  double BytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Fetches what `path` leads to. What was at `local` stays until all of the new has come. Aborted
// when the file changed meanwhile.
NfsTransfer NfsGet(NfsTree& tree, const NfsLimits& limits, const std::string& path,
                   const std::string& local, const Progress& progress);

// Sends a file, under a name of its own that becomes `path` when all of it is on stable storage;
// what was at `path` stays until then. What a server that restarts has lost is sent again.
NfsTransfer NfsPut(NfsTree& tree, const NfsLimits& limits, const std::string& local,
                   const std::string& path, const Progress& progress);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_TRANSFER_H_
