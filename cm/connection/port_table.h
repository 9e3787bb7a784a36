// The ports in use: those of listeners, and of identifiers that connect from an ephemeral port.
#ifndef POLLUX_CM_CONNECTION_PORT_TABLE_H_
#define POLLUX_CM_CONNECTION_PORT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "cm/connection/connection.h"
#include "cm/gsi/shard.h"
#include "cm/wire/service_id.h"
#include "stack/base/random.h"
#include "stack/base/socket_address.h"
#include "stack/base/types.h"
#include "stack/kernel/interface_claims.h"

namespace pollux::cm {

// Owned by the manager, on its core. Bounded by the number of connections: each has at most one
// port. An address of all zeros stands for any address, or for any IPv6 address
// (CmConnection::ipv6_only).
class PortTable {
 public:
  // The range of RFC 6335 section 6.
  static constexpr uint16_t kFirstEphemeral = 49152;
  static constexpr uint32_t kEphemerals = 65536 - kFirstEphemeral;

  // `claims`: of the interface, if other processes share it; their ports are in use too, at every
  // address. May be null; not owned.
  explicit PortTable(Shard shard = {}, kernel::InterfaceClaims* claims = nullptr)
      : shard_(shard), claims_(claims) {}

  // Binds in the connection's port space. AlreadyExists if the port is in use at that address or at
  // any address, unless both connections share it (CmConnection::reuses_address). May fail for want
  // of a descriptor, too.
  absl::Status Bind(CmConnection& connection, const SocketAddress& local);
  // Claims the connection's port, unless it has the claim already, so that requests to it come to
  // this process. Call it before a connection listens, and for one that a request has created,
  // which may outlive its listener. AlreadyExists if another process has it.
  absl::Status Claim(CmConnection& connection) {
    return Claim(connection, connection.local().port);
  }
  void ReleaseClaim(CmConnection& connection);
  // Sets CmConnection::ipv6_only. Returns false, without setting it, if the port is in use then.
  bool SetIpv6Only(CmConnection& connection, bool only);
  // Whether no other connection is bound to the same address and port.
  bool IsAlone(const CmConnection& connection) const;
  // Whether a connection may listen later. If not, its port may be that of a connection of another
  // process, since nothing is addressed to it.
  enum class Use : bool { kMayListen, kConnects };
  // Binds to a random free port among the ephemeral ports of this manager. ResourceExhausted if
  // there is none.
  absl::Status BindEphemeral(CmConnection& connection, const Gid& address, Random& random,
                             Use use = Use::kMayListen);
  // Releases the connection's port and its claim, if it has them.
  void Release(CmConnection& connection);

  // Finds the listener for requests to `address`: preferably one bound to this address, then one
  // for any IPv6 address if `address` is one, then one for any address. Returns null if there is
  // none.
  CmConnection* FindListener(ServiceId service, const Gid& address) const;
  size_t size() const;

 private:
  struct Binding {
    Gid address;
    CmConnection* connection;
  };
  enum class Sharing : bool { kNone, kAsSaid };

  bool IsFree(const CmConnection& connection, const SocketAddress& local, Sharing sharing) const;
  absl::Status Claim(CmConnection& connection, uint16_t port);
  void Add(CmConnection& connection, const SocketAddress& local);

  const Shard shard_;
  kernel::InterfaceClaims* const claims_;
  absl::flat_hash_map<uint64_t, std::vector<Binding>> bindings_;  // by ServiceId::ToWire
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_PORT_TABLE_H_
