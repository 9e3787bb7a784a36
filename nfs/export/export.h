// What is given out to whom: the value of one --export option.
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
inline constexpr size_t kMaxClientNetworks = 64;  // of an export
inline constexpr uint32_t kAnonymousId = 65534;   // who is squashed: user and group

// The addresses that begin with the first `prefix_length` bits of `address`, counted within its IP
// version.
struct Network {
  Gid address;
  uint8_t prefix_length = 0;
  friend bool operator==(const Network&, const Network&) = default;
};

struct Export {
  std::string directory;  // absolute
  bool read_only = true;
  bool root_squash = true;
  std::vector<Network> clients;  // none: everybody

  bool Admits(const Gid& client) const;
};

// "DIR[:ro|rw][,clients=CIDR]...[,no_root_squash]"; a CIDR without length is one address. The
// directory is taken as it stands, up to the last ":ro" or ":rw" or else the first comma; it need
// not exist yet. InvalidArgument says which part is wrong.
absl::StatusOr<Export> ParseExport(absl::string_view text);
// "192.0.2.0/24" or "2001:db8::/32", as showmount lists them.
std::string FormatNetwork(const Network& network);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_EXPORT_H_
