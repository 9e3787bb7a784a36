// Transfers whole files through the file service, and measures calls.
#ifndef POLLUX_TOOLS_FILE_SERVICE_TRANSFER_H_
#define POLLUX_TOOLS_FILE_SERVICE_TRANSFER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tools/common/load.h"
#include "tools/common/node.h"
#include "tools/common/progress.h"
#include "tools/file_service/file_client.h"

namespace pollux::tools {

struct TransferResult {
  absl::Status status;
  uint64_t bytes = 0;
  double seconds = 0;
  std::string sha256;  // of the transferred bytes, in hexadecimal

  double BytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Blocks in flight at once: enough to keep the network busy while one is read from or written to
// the disk.
inline constexpr int kBlocksInFlight = 4;

// Transfer a local file to `remote`, or back. An existing file at `local` is kept until the new one
// is complete. Call them on the main thread; their RPCs run on the node's core. SIGINT and SIGTERM
// end them with Cancelled. Aborted if the file changes meanwhile.
TransferResult PutFile(Node& node, FileClient& client, const std::string& local,
                       const std::string& remote, const Progress& progress);
TransferResult GetFile(Node& node, FileClient& client, const std::string& remote,
                       const std::string& local, const Progress& progress);

// Makes NULL calls with the given load.
LoadResult TimeNullCalls(Node& node, FileClient& client, const LoadOptions& load,
                         const Progress& progress);

struct BlocksResult {
  absl::Status status;
  uint64_t bytes = 0;
  double seconds = 0;

  double BytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

struct BlockLoad {
  uint64_t count = 0;
  uint32_t bytes = kMaxBlock;  // per block
  int in_flight = kBlocksInFlight;
};

// Writes (or reads) the first block of `remote` repeatedly, from (or to) memory, so that the local
// disk has no influence.
BlocksResult TimeBlocks(Node& node, FileClient& client, bool write, const std::string& remote,
                        const BlockLoad& load, const Progress& progress);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_TRANSFER_H_
