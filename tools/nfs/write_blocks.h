// Copies a local file to a remote one, and records which blocks are on stable storage.
#ifndef POLLUX_TOOLS_NFS_WRITE_BLOCKS_H_
#define POLLUX_TOOLS_NFS_WRITE_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs/client/client.h"
#include "nfs/v3/files.h"
#include "nfs/v3/handle.h"
#include "tools/common/blocks.h"

namespace pollux::tools {

// The state of each block. RFC 1813 section 3.3.7: data written UNSTABLE is safe if COMMIT returns
// the same verifier as WRITE did.
class NfsWritten {
 public:
  explicit NfsWritten(size_t blocks) : blocks_(blocks) {}

  // The first block from `from` on that must be sent; the number of blocks if there is none.
  size_t NextUnsent(size_t from) const;
  bool AllSafe() const;
  void Sent(size_t block, std::optional<nfs::Writeverf3> unstable);
  // Handles the verifier of a COMMIT. Blocks with another verifier must be sent again; returns
  // their number.
  size_t Committed(nfs::Writeverf3 verifier);

 private:
  enum class State : uint8_t { kUnsent, kUnstable, kSafe };
  struct Block {
    State state = State::kUnsent;
    nfs::Writeverf3 verifier = 0;
  };
  std::vector<Block> blocks_;
};

// Sends unsent blocks by WRITE UNSTABLE; the rest of a block that the server accepts only in part
// is sent again.
class NfsWriteBlocks : public Blocks {
 public:
  // Reads from `fd`; error messages begin with `what`. `written` must have the number of blocks of
  // `shape`, and only this object may use it until the end.
  NfsWriteBlocks(nfs::Client& client, const nfs::NfsFh3& file, int fd, std::string what,
                 const Shape& shape, NfsWritten* written)
      : Blocks(shape),
        client_(client),
        file_(file),
        fd_(fd),
        what_(std::move(what)),
        written_(written),
        sending_(static_cast<size_t>(shape.in_flight)) {}

 private:
  // A block that is being sent.
  struct Sending {
    uint32_t have = 0;  // bytes that the server has
    bool unstable = false;
    bool mixed = false;  // its parts have different verifiers
    nfs::Writeverf3 verifier = 0;
  };
  bool Take(uint64_t* offset) override;
  void Move(size_t buffer, uint64_t offset, uint32_t bytes) override;
  void Send(size_t buffer, uint64_t offset, uint32_t bytes);
  absl::Status Note(const nfs::WriteRes& results, uint32_t asked, Sending* sending);
  void Finish(size_t buffer, uint64_t offset, uint32_t bytes);

  nfs::Client& client_;
  const nfs::NfsFh3 file_;
  const int fd_;
  const std::string what_;
  NfsWritten* const written_;
  std::vector<Sending> sending_;  // by buffer
  size_t next_block_ = 0;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_WRITE_BLOCKS_H_
