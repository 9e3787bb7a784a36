#include "nfs/server/counters.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "stack/engine/telemetry.h"

namespace pollux::nfs {
namespace {

constexpr const char* kNames[] = {
    "null",    "getattr",     "setattr", "lookup", "access",   "readlink", "read",   "write",
    "create",  "mkdir",       "symlink", "mknod",  "remove",   "rmdir",    "rename", "link",
    "readdir", "readdirplus", "fsstat",  "fsinfo", "pathconf", "commit"};
static_assert(std::size(kNames) == kProcedures);

}  // namespace

void Counters::Collect(Stats* stats) const {
  for (uint32_t i = 0; i < kProcedures; ++i) {
    stats->Count(absl::StrCat("calls/", kNames[i]), procedures[i].calls);
    stats->Count(absl::StrCat("failures/", kNames[i]), procedures[i].failures);
  }
  stats->Count("bytes_read", bytes_read);
  stats->Count("bytes_ahead", bytes_ahead);
  stats->Count("bytes_written", bytes_written);
  stats->Count("waited", waited);
  stats->Count("put_off", put_off);
  stats->Count("acl_calls", acl_calls);
}

uint64_t Counters::calls() const {
  uint64_t all = 0;
  for (const OfProcedure& one : procedures) all += one.calls;
  return all;
}

void OfferTopic() {
  engine::OfferTopic({"nfs", engine::Topic::Asks::kWorker,
                      "NFS calls of a worker's server. Parameters: [WORKER]"});
}

}  // namespace pollux::nfs
