#include "rpcrdma/connection/refusal_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pollux::rpcrdma {

LogRateLimiter& RefusalLog::BudgetOf(const Gid& address, uint64_t now_ns) {
  const auto end = addresses_.begin() + static_cast<ptrdiff_t>(address_count_);
  auto found = std::find_if(addresses_.begin(), end,
                            [&](const OfAddress& one) { return one.address == address; });
  if (found == end) {
    if (address_count_ < kAddresses) {
      ++address_count_;
    } else {
      found = std::ranges::min_element(addresses_, {}, &OfAddress::used_ns);
    }
    *found = {.address = address};
  }
  found->used_ns = now_ns;
  return found->budget;
}

void RefusalLog::Write(const SocketAddress& peer, std::string_view what, uint64_t now_ns) {
  if (sink_ == nullptr) return;
  if (!BudgetOf(peer.address, now_ns).Take(now_ns) || !all_.Take(now_ns)) {
    ++left_out_;
    return;
  }
  std::string line =
      absl::StrCat(ToString(peer), ": ", absl::string_view(what.data(), what.size()));
  if (const uint64_t left_out = std::exchange(left_out_, 0); left_out > 0) {
    absl::StrAppend(&line, " (", left_out, " lines of refusals were left out before this one)");
  }
  sink_(line);
}

}  // namespace pollux::rpcrdma
