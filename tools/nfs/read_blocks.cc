#include "tools/nfs/read_blocks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/v3/status.h"
#include "tools/common/local_file.h"

namespace pollux::tools {

absl::Status NfsReadBlocks::Place(const nfs::ReadRes& results, absl::Span<uint8_t> room,
                                  uint32_t* got) {
  if (results.status != nfs::Nfsstat3::kOk) return nfs::ToStatus(results.status, what_);
  const absl::Span<const uint8_t> data = results.resok.data.bytes;
  if (data.size() != results.resok.count) {
    return absl::DataLossError(
        absl::StrCat(what_, ": the byte count of the server's READ does not match its data"));
  }
  // In the message, data may be longer than the room that was offered for them.
  if (data.size() > room.size()) {
    return absl::DataLossError(absl::StrCat(what_, ": the server's READ has ", data.size(),
                                            " bytes, of ", room.size(), " that were requested"));
  }
  if (data.empty() || (results.resok.eof && data.size() < room.size())) {
    return absl::AbortedError(absl::StrCat(what_, ": the file became shorter while it was read"));
  }
  // Short data may come in the message instead of the chunk.
  if (data.data() != room.data()) std::copy(data.begin(), data.end(), room.begin());
  *got = static_cast<uint32_t>(data.size());
  return absl::OkStatus();
}

void NfsReadBlocks::Ask(size_t buffer, uint64_t offset, uint32_t bytes, uint32_t have) {
  const absl::Span<uint8_t> room = absl::MakeSpan(buffers_[buffer]).subspan(have, bytes - have);
  const nfs::ReadArgs arguments{
      .file = file_, .offset = offset + have, .count = static_cast<uint32_t>(room.size())};
  client_.Call<nfs::ReadRes>(
      nfs::Procedure::kRead, arguments, {.item = room},
      [=, this](absl::Status status, const nfs::ReadRes* results) {
        uint32_t got = 0;
        if (status.ok()) {
          status = Place(*results, room, &got);
        } else {
          status = absl::Status(status.code(), absl::StrCat(what_, ": ", status.message()));
        }
        if (status.ok() && have + got < bytes) return Ask(buffer, offset, bytes, have + got);
        if (status.ok()) {
          status = WriteBlock(fd_, offset, absl::MakeConstSpan(buffers_[buffer]).first(bytes));
        }
        Moved(buffer, status, status.ok() ? bytes : 0);
      });
}

}  // namespace pollux::tools
