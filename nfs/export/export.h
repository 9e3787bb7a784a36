// An exported directory and the rights of its clients.
#ifndef POLLUX_NFS_EXPORT_EXPORT_H_
#define POLLUX_NFS_EXPORT_EXPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stack/base/types.h"

namespace pollux::nfs {

inline constexpr size_t kMaxServedExports = 16;   // each has storage threads of its own
inline constexpr size_t kMaxClientNetworks = 64;  // per export
inline constexpr uint32_t kAnonymousId = 65534;   // the user and group of squashed users

// The addresses that share the first `prefix_length` bits with `address`. For IPv4 the bits of the
// IPv4 address are counted.
struct Network {
  Gid address;
  uint8_t prefix_length = 0;
  friend bool operator==(const Network&, const Network&) = default;
};

struct ClientRights {
  bool read_only = true;
  bool root_squash = true;
  bool all_squash = false;
  // of squashed users
  uint32_t anonymous_uid = kAnonymousId;
  uint32_t anonymous_gid = kAnonymousId;
  friend bool operator==(const ClientRights&, const ClientRights&) = default;
};

struct ClientRule {
  std::optional<Network> network;  // none: every client
  ClientRights rights;
};

struct Export {
  std::string directory;  // absolute
  std::vector<ClientRule> clients;

  // The rights by the first rule that applies to the client; null if none does.
  const ClientRights* RightsOf(const Gid& client) const;
  // Sorts the rules as exports(5) ranks them: hosts before networks before everyone, and otherwise
  // in the order in which they were added.
  void RankRules();
};

// "192.0.2.0/24", "192.0.2.0/255.255.255.0", "2001:db8::/32", or one address. InvalidArgument if it
// is none.
absl::StatusOr<Network> ParseNetwork(absl::string_view text);
// Removes slashes from the end, repeated slashes and components "." from an absolute path. Returns
// false if it is not absolute.
[[nodiscard]] bool NormalizeDirectory(std::string* directory);

// "DIR[:ro|rw][,clients=CIDR]...[,no_root_squash]"; a CIDR without a length is one address. The
// directory extends to the last ":ro" or ":rw", or else to the first comma; it is not checked here.
// InvalidArgument names the invalid part.
absl::StatusOr<Export> ParseExport(absl::string_view text);
// "192.0.2.0/24", "2001:db8::/32", or "*" for every client, as in the list of showmount.
std::string FormatClients(const ClientRule& rule);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_EXPORT_H_
