// What a running nfsd tells of its clients' locks.
#ifndef POLLUX_TOOLS_STAT_CLIENT_LOCKS_H_
#define POLLUX_TOOLS_STAT_CLIENT_LOCKS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "nfs/lock/lock_table.h"

namespace pollux::tools {

// Commands of telemetry under /pollux/: the lines of all clients; and, with an address, what is to
// be dropped.
inline constexpr char kLocksTopic[] = "locks";
inline constexpr char kDropLocksTopic[] = "drop_locks";

// One client's: "ADDRESS FILES RANGES AWAITED SHARES NAME", the name escaped as in C and cut to
// what a line of telemetry holds.
std::string LineOf(const nfs::LockClient& client, const nfs::ClientLocks& locks);
// {"address", "name", "files", "ranges", "awaited", "shares"} of such a line; DataLoss when it is
// none.
absl::StatusOr<nlohmann::ordered_json> ParseLocks(const std::string& line);
// A table of those.
std::string LocksText(const nlohmann::ordered_json& locks);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_CLIENT_LOCKS_H_
