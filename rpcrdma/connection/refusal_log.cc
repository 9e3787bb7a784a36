#include "rpcrdma/connection/refusal_log.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pollux::rpcrdma {

void RefusalLog::Write(const SocketAddress& peer, std::string_view what, uint64_t now_ns) {
  if (sink_ == nullptr) return;
  if (!lines_.Take(peer.address, now_ns)) return;
  std::string line =
      absl::StrCat(ToString(peer), ": ", absl::string_view(what.data(), what.size()));
  if (const uint64_t left_out = lines_.TakeLeftOut(); left_out > 0) {
    absl::StrAppend(&line, " (", left_out, " lines of refusals were left out before this one)");
  }
  sink_(line);
}

}  // namespace pollux::rpcrdma
