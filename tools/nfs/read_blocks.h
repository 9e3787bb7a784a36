// Copies a remote file to a local one.
#ifndef POLLUX_TOOLS_NFS_READ_BLOCKS_H_
#define POLLUX_TOOLS_NFS_READ_BLOCKS_H_

#include <cstdint>
#include <string>

#include "nfs/client/client.h"
#include "nfs/v3/files.h"
#include "nfs/v3/handle.h"
#include "tools/common/blocks.h"

namespace pollux::tools {

// Uses READ; the rest of a block that the server returns only in part is requested again. Aborted
// if the file ends before its size.
class NfsReadBlocks : public Blocks {
 public:
  // Writes to `fd`; error messages begin with `what`.
  NfsReadBlocks(nfs::Client& client, const nfs::NfsFh3& file, int fd, std::string what,
                const Shape& shape)
      : Blocks(shape), client_(client), file_(file), fd_(fd), what_(std::move(what)) {}

 private:
  void Move(size_t buffer, uint64_t offset, uint32_t bytes) override {
    Ask(buffer, offset, bytes, 0);
  }
  // Requests the rest of a block of which `have` bytes have arrived.
  void Ask(size_t buffer, uint64_t offset, uint32_t bytes, uint32_t have);
  absl::Status Place(const nfs::ReadRes& results, absl::Span<uint8_t> room, uint32_t* got);

  nfs::Client& client_;
  const nfs::NfsFh3 file_;
  const int fd_;
  const std::string what_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_READ_BLOCKS_H_
