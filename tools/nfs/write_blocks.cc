#include "tools/nfs/write_blocks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nfs/v3/status.h"
#include "tools/common/local_file.h"

namespace pollux::tools {

size_t NfsWritten::NextUnsent(size_t from) const {
  while (from < blocks_.size() && blocks_[from].state != State::kUnsent) ++from;
  return from;
}

bool NfsWritten::AllSafe() const {
  return std::all_of(blocks_.begin(), blocks_.end(),
                     [](const Block& block) { return block.state == State::kSafe; });
}

void NfsWritten::Sent(size_t block, std::optional<nfs::Writeverf3> unstable) {
  blocks_[block] = {unstable.has_value() ? State::kUnstable : State::kSafe, unstable.value_or(0)};
}

size_t NfsWritten::Committed(nfs::Writeverf3 verifier) {
  size_t lost = 0;
  for (Block& block : blocks_) {
    if (block.state != State::kUnstable) continue;
    block.state = block.verifier == verifier ? State::kSafe : State::kUnsent;
    if (block.state == State::kUnsent) ++lost;
  }
  return lost;
}

bool NfsWriteBlocks::Take(uint64_t* offset) {
  const size_t block = written_->NextUnsent(next_block_);
  *offset = uint64_t{block} * shape_.block_bytes;
  next_block_ = block + 1;
  return *offset < shape_.total;
}

void NfsWriteBlocks::Move(size_t buffer, uint64_t offset, uint32_t bytes) {
  sending_[buffer] = {};
  absl::Status read = ReadBlock(fd_, offset, absl::MakeSpan(buffers_[buffer]).first(bytes));
  if (!read.ok()) return Moved(buffer, read, 0);
  Send(buffer, offset, bytes);
}

absl::Status NfsWriteBlocks::Note(const nfs::WriteRes& results, uint32_t asked, Sending* sending) {
  if (results.status != nfs::Nfsstat3::kOk) return nfs::ToStatus(results.status, what_);
  if (results.resok.count == 0 || results.resok.count > asked) {
    return absl::DataLossError(absl::StrCat(what_, ": the server's WRITE took ",
                                            results.resok.count, " bytes of ", asked));
  }
  if (results.resok.committed == nfs::StableHow::kUnstable) {
    sending->mixed |= sending->unstable && sending->verifier != results.resok.verf;
    sending->unstable = true;
    sending->verifier = results.resok.verf;
  }
  sending->have += results.resok.count;
  return absl::OkStatus();
}

void NfsWriteBlocks::Send(size_t buffer, uint64_t offset, uint32_t bytes) {
  const uint32_t have = sending_[buffer].have;
  const uint32_t asked = bytes - have;
  const nfs::WriteArgs arguments{
      .file = file_,
      .offset = offset + have,
      .count = asked,
      .stable = nfs::StableHow::kUnstable,
      .data = {absl::MakeConstSpan(buffers_[buffer]).subspan(have, asked)}};
  client_.Call<nfs::WriteRes>(nfs::Procedure::kWrite, arguments,
                              [=, this](absl::Status status, const nfs::WriteRes* results) {
                                if (status.ok()) {
                                  status = Note(*results, asked, &sending_[buffer]);
                                } else {
                                  status = absl::Status(
                                      status.code(), absl::StrCat(what_, ": ", status.message()));
                                }
                                if (!status.ok()) return Moved(buffer, status, 0);
                                if (sending_[buffer].have < bytes)
                                  return Send(buffer, offset, bytes);
                                Finish(buffer, offset, bytes);
                              });
}

void NfsWriteBlocks::Finish(size_t buffer, uint64_t offset, uint32_t bytes) {
  const Sending& sending = sending_[buffer];
  // The server restarted between two parts: the first may be lost.
  if (sending.mixed) return Move(buffer, offset, bytes);
  written_->Sent(offset / shape_.block_bytes,
                 sending.unstable ? std::optional(sending.verifier) : std::nullopt);
  Moved(buffer, absl::OkStatus(), bytes);
}

}  // namespace pollux::tools
