// Transfers whole files between this host and an NFS server.
#ifndef POLLUX_TOOLS_NFS_TRANSFER_H_
#define POLLUX_TOOLS_NFS_TRANSFER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/common/progress.h"
#include "tools/nfs/tree.h"

namespace pollux::tools {

// The server's limits for transfers.
struct NfsLimits {
  uint32_t read_bytes = 0;   // per READ: rtmax, at most nfs::kMaxFileData
  uint32_t write_bytes = 0;  // per WRITE: wtmax, at most nfs::kMaxFileData
  int in_flight = 1;         // calls at once: the granted credits, at most kMaxInFlight
};
// Each call has a buffer of the size of a READ or WRITE.
inline constexpr int kMaxInFlight = 16;

// Calls FSINFO for the root. DataLoss if a READ or WRITE limit is 0.
absl::StatusOr<NfsLimits> AskLimits(const NfsTree& tree);

struct NfsTransfer {
  absl::Status status;
  uint64_t bytes = 0;
  double seconds = 0;
  std::string sha256;  // of the transferred bytes, in hexadecimal

  double BytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Fetches the file at `path`, following symbolic links. An existing file at `local` is kept until
// the new one is complete. Aborted if the remote file changes meanwhile.
NfsTransfer NfsGet(NfsTree& tree, const NfsLimits& limits, const std::string& path,
                   const std::string& local, const Progress& progress);

// Sends a file under a temporary name, which is renamed to `path` when all data is on stable
// storage; an existing file at `path` is kept until then. Data that the server loses by a restart
// is sent again. Aborted if the local file changes meanwhile.
NfsTransfer NfsPut(NfsTree& tree, const NfsLimits& limits, const std::string& local,
                   const std::string& path, const Progress& progress);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_TRANSFER_H_
