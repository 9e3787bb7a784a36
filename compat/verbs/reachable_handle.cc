#include "compat/verbs/reachable_handle.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compat/process/waited.h"
#include "stack/base/address.h"
#include "stack/engine/loop/clock.h"
#include "stack/engine/loop/patience.h"
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

absl::StatusOr<verbs::AddressHandle*> CreateReachableHandle(Pd* pd, const ibv_ah_attr& attr) {
  World* const world = Of(pd->context)->world;
  verbs::AddressHandle* handle = nullptr;
  {
    Turn turn(world);
    turn.unwanted_handles().Sweep(turn.worker());
    const absl::StatusOr<verbs::AddressHandle*> made = turn.worker().CreateAh(pd->native, attr);
    turn.Poll();
    if (!made.ok() || (*made)->link->resolved()) return made;
    handle = *made;
  }
  engine::Clock clock;
  Waited waited(clock.NowNs());
  engine::Patience patience;
  while (true) {
    patience.Wait();
    Turn turn(world);
    turn.Poll();
    if (handle->link->resolved()) return handle;
    if (waited.Ns(clock.NowNs()) < kLongestSearchNs) continue;
    const Gid host = handle->destination;
    if (const absl::Status status = turn.worker().DestroyAh(handle); !status.ok()) return status;
    return NotFound(host);
  }
}

}  // namespace pollux::compat
