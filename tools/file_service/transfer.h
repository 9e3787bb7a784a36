// Whole files through the file service, and calls to be timed.
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
  std::string sha256;  // of the bytes moved, hexadecimal

  double BytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Blocks on the way at once: enough to keep the wire busy while one is on the disk.
inline constexpr int kBlocksInFlight = 4;

// Moves a local file to `remote`, or back. What was at `local` stays until all of the new has come.
// From the main thread; the calls run on the node's core. A SIGINT or SIGTERM ends them with
// Cancelled.
TransferResult PutFile(Node& node, FileClient& client, const std::string& local,
                       const std::string& remote, const Progress& progress);
TransferResult GetFile(Node& node, FileClient& client, const std::string& remote,
                       const std::string& local, const Progress& progress);

// NULL calls as `load` asks.
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
  uint32_t bytes = kMaxBlock;  // of each
  int in_flight = kBlocksInFlight;
};

// Writes (or reads) the first block of `remote` again and again, from memory: the local disk plays
// no part.
BlocksResult TimeBlocks(Node& node, FileClient& client, bool write, const std::string& remote,
                        const BlockLoad& load, const Progress& progress);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_TRANSFER_H_
