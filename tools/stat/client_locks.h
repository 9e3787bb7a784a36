// The locks of clients, as reported by a running nfsd.
#ifndef POLLUX_TOOLS_STAT_CLIENT_LOCKS_H_
#define POLLUX_TOOLS_STAT_CLIENT_LOCKS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "nfs/lock/lock_table.h"

namespace pollux::tools {

// Telemetry commands below /pollux/: one lists all clients; the other, with an address, drops a
// client's locks.
inline constexpr char kLocksTopic[] = "locks";
inline constexpr char kDropLocksTopic[] = "drop_locks";

// The line for one client: "ADDRESS FILES RANGES AWAITED SHARES NAME". The name is escaped as in C
// and truncated to fit into a line of telemetry.
std::string LineOf(const nfs::LockClient& client, const nfs::ClientLocks& locks);
// Parses such a line to {"address", "name", "files", "ranges", "awaited", "shares"}. DataLoss if it
// is not one.
absl::StatusOr<nlohmann::ordered_json> ParseLocks(const std::string& line);
// A table of the parsed lines.
std::string LocksText(const nlohmann::ordered_json& locks);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_CLIENT_LOCKS_H_
