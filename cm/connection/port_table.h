// Who has which port: listeners, and identifiers that connect from an ephemeral one.
#ifndef POLLUX_CM_CONNECTION_PORT_TABLE_H_
#define POLLUX_CM_CONNECTION_PORT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cm/connection/connection.h"
#include "cm/gsi/shard.h"
#include "cm/wire/service_id.h"
#include "stack/base/random.h"
#include "stack/base/socket_address.h"
#include "stack/base/types.h"

namespace pollux::cm {

// Owned by the manager, on its core. Bounded by the connections there are: each has one port at
// most. An address of all zeros stands for any, or for any of IPv6 (Connection::ipv6_only).
class PortTable {
 public:
  // The range of RFC 6335 section 6.
  static constexpr uint16_t kFirstEphemeral = 49152;
  static constexpr uint32_t kEphemerals = 65536 - kFirstEphemeral;

  explicit PortTable(Shard shard = {}) : shard_(shard) {}

  // In the connection's port space. False when the port is in use at that address or at any, but
  // for those that share it (Connection::reuses_address).
  bool Bind(CmConnection& connection, const SocketAddress& local);
  // Whether nobody else has what it is bound to.
  bool IsAlone(const CmConnection& connection) const;
  // At a free port, chosen at random of those that are this manager's alone. False when there is
  // none.
  bool BindEphemeral(CmConnection& connection, const Gid& address, Random& random);
  // Gives up what Bind gave, if anything.
  void Release(CmConnection& connection);

  // The listener for what is sent to `address`: one that is bound to it before one for any of its
  // kind, before one for any. Null when there is none.
  CmConnection* FindListener(ServiceId service, const Gid& address) const;
  size_t size() const;

 private:
  struct Binding {
    Gid address;
    CmConnection* connection;
  };
  enum class Sharing : bool { kNone, kAsSaid };

  bool IsFree(const CmConnection& connection, const SocketAddress& local, Sharing sharing) const;
  void Add(CmConnection& connection, const SocketAddress& local);

  const Shard shard_;
  absl::flat_hash_map<uint64_t, std::vector<Binding>> bindings_;  // by ServiceId::ToWire
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_PORT_TABLE_H_
