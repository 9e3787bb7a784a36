#include "compat/verbs/resolved_ah.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compat/process/stall_tolerant_stopwatch.h"
#include "stack/base/address.h"
#include "stack/engine/polling/clock.h"
#include "stack/engine/polling/spin_then_sleep_backoff.h"
#include "stack/ip/neighbours.h"

namespace pollux::compat {
namespace {

constexpr uint64_t kLongestSearchNs =
    ip::NeighbourTable::kMaxRequests * ip::NeighbourTable::kRetryNs;

absl::Status NotFound(const Gid& host) {
  return absl::DeadlineExceededError(
      absl::StrCat("no answer to ", host.IsIpv4() ? "ARP" : "neighbour discovery", " for ",
                   FormatAddress(host), ", or its gateway, within ",
                   kLongestSearchNs / 1'000'000'000, " s: is it up, and on this network?"));
}

}  // namespace

ibv_ah_attr WithDefaultHopLimit(ibv_ah_attr attr) {
  Gid destination;
  std::ranges::copy(attr.grh.dgid.raw, destination.raw.begin());
  if (!destination.IsMulticast()) attr.grh.hop_limit = 0;
  return attr;
}

absl::StatusOr<verbs::AddressHandle*> CreateResolvedAh(Pd* pd, const ibv_ah_attr& attr) {
  Runtime* const runtime = Of(pd->context)->runtime;
  verbs::AddressHandle* handle = nullptr;
  {
    ScopedWorkerOwnership owned(runtime);
    owned.deferred_ah_destroy().Sweep(owned.worker());
    const absl::StatusOr<verbs::AddressHandle*> made =
        owned.worker().CreateAh(pd->native, WithDefaultHopLimit(attr));
    owned.Poll();
    if (!made.ok() || (*made)->link->resolved()) return made;
    handle = *made;
  }
  engine::Clock clock;
  StallTolerantStopwatch stopwatch(clock.NowNs());
  engine::SpinThenSleepBackoff backoff;
  while (true) {
    backoff.Wait();
    ScopedWorkerOwnership owned(runtime);
    owned.Poll();
    if (handle->link->resolved()) return handle;
    if (stopwatch.Ns(clock.NowNs()) < kLongestSearchNs) continue;
    const Gid host = handle->destination;
    if (const absl::Status status = owned.worker().DestroyAh(handle); !status.ok()) return status;
    return NotFound(host);
  }
}

}  // namespace pollux::compat
