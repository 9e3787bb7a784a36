// An exported directory and its clients: the value of one --export option.
#ifndef POLLUX_NFS_EXPORT_EXPORT_H_
#define POLLUX_NFS_EXPORT_EXPORT_H_

#include <cstdint>
#include <string>
#include <vector>

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

struct Export {
  std::string directory;  // absolute
  bool read_only = true;
  bool root_squash = true;
  std::vector<Network> clients;  // empty: all clients

  bool Admits(const Gid& client) const;
};

// "DIR[:ro|rw][,clients=CIDR]...[,no_root_squash]"; a CIDR without a length is one address. The
// directory extends to the last ":ro" or ":rw", or else to the first comma; it is not checked here.
// InvalidArgument names the invalid part.
absl::StatusOr<Export> ParseExport(absl::string_view text);
// "192.0.2.0/24" or "2001:db8::/32", as in the list of showmount.
std::string FormatNetwork(const Network& network);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_EXPORT_H_
