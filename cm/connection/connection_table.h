// The manager's connections, by every number that a message may name them by.
#ifndef POLLUX_CM_CONNECTION_CONNECTION_TABLE_H_
#define POLLUX_CM_CONNECTION_CONNECTION_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "cm/connection/connection.h"
#include "cm/connection/port_table.h"
#include "cm/gsi/shard.h"
#include "stack/base/random.h"

namespace pollux::cm {

// Owned by the manager, on its core. Bounded by `capacity` connections alive.
class ConnectionTable {
 public:
  ConnectionTable(size_t capacity, Shard shard)
      : capacity_(capacity), shard_(shard), ports_(shard) {}

  // Takes over a connection under a fresh, unpredictable local communication ID of this manager's.
  // Null at capacity.
  Connection* Add(std::unique_ptr<Connection> connection, Random& random);
  // Takes the connection out of every index; its memory stays until FreeRemoved(), since it may be
  // in the midst of a call of its own handler.
  void Remove(Connection& connection);
  // True when there was something to free.
  bool FreeRemoved();
  bool has_removed() const { return !removed_.empty(); }

  // Null when there is none.
  Connection* Find(uint32_t local_comm_id) const;

  // Null when there is none, or its identifier is destroyed. Looks at each.
  Connection* FindByQpn(Qpn qpn) const;
  void Visit(absl::FunctionRef<void(const Connection& connection)> visit) const;

  // By the peer's address and the numbers that it has given: those of strangers who give the same
  // numbers are others. None with the same must be there already.
  void IndexPeer(Connection& connection);
  void UnindexPeer(Connection& connection);
  // The peer may give the number to another queue pair; a late copy of its REQ is still known.
  void UnindexPeerQpn(Connection& connection);
  Connection* FindByPeerCommId(const Gid& peer, uint64_t ca_guid, uint32_t comm_id) const;
  Connection* FindByPeerQpn(const Gid& peer, uint64_t ca_guid, uint32_t qpn) const;

  // By who asked in a SIDR_REQ, and its request ID (`remote_comm_id`).
  void IndexSidr(Connection& connection);
  Connection* FindSidr(const Gid& from, uint32_t request_id) const;

  PortTable& ports() { return ports_; }
  size_t size() const { return by_id_.size(); }

 private:
  // Address, CA GUID, communication ID or QPN.
  using PeerKey = std::tuple<std::array<uint8_t, 16>, uint64_t, uint32_t>;
  const size_t capacity_;
  const Shard shard_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Connection>> by_id_;
  absl::flat_hash_map<PeerKey, Connection*> by_peer_comm_id_;
  absl::flat_hash_map<PeerKey, Connection*> by_peer_qpn_;
  using SidrKey = std::pair<std::array<uint8_t, 16>, uint32_t>;
  absl::flat_hash_map<SidrKey, Connection*> by_sidr_;
  PortTable ports_;
  std::vector<std::unique_ptr<Connection>> removed_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_CONNECTION_TABLE_H_
