// The manager's connections, indexed by each ID by which a message may refer to them.
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

// Owned by the manager, on its core. Holds at most `capacity` connections.
class ConnectionTable {
 public:
  ConnectionTable(size_t capacity, Shard shard, kernel::InterfaceClaims* claims = nullptr)
      : capacity_(capacity), shard_(shard), ports_(shard, claims) {}

  ~ConnectionTable();
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  // Takes ownership of a connection and gives it a new, unpredictable local communication ID of
  // this manager. Returns null at capacity.
  CmConnection* Add(std::unique_ptr<CmConnection> connection, Random& random);
  // Takes the connection out of every index; its memory remains until FreeRemoved(), because its
  // own handler may be the caller.
  void Remove(CmConnection& connection);
  // Returns true if there was something to free.
  bool FreeRemoved();
  bool has_removed() const { return !removed_.empty(); }

  // Returns null if there is none.
  CmConnection* Find(uint32_t local_comm_id) const;

  // Returns null if there is none or its identifier was destroyed. Linear in the number of
  // connections.
  CmConnection* FindByQpn(Qpn qpn) const;
  void Visit(absl::FunctionRef<void(const CmConnection& connection)> visit) const;

  // Indexes the connection by the peer's address and CA GUID together with its communication ID and
  // with its queue pair number, so that equal numbers of different peers do not collide. The index
  // must not have these keys yet.
  void IndexPeer(CmConnection& connection);
  void UnindexPeer(CmConnection& connection);
  // Removes only the queue pair number, which the peer may reuse. A late copy of the REQ is still
  // recognised by its communication ID.
  void UnindexPeerQpn(CmConnection& connection);
  CmConnection* FindByPeerCommId(const Gid& peer, uint64_t ca_guid, uint32_t comm_id) const;
  CmConnection* FindByPeerQpn(const Gid& peer, uint64_t ca_guid, uint32_t qpn) const;

  // Indexes the connection by the sender of the SIDR_REQ and its request ID (`remote_comm_id`).
  void IndexSidr(CmConnection& connection);
  CmConnection* FindSidr(const Gid& from, uint32_t request_id) const;

  PortTable& ports() { return ports_; }
  bool is_full() const { return by_id_.size() >= capacity_; }
  size_t size() const { return by_id_.size(); }

 private:
  // Address, CA GUID, communication ID or QPN.
  using PeerKey = std::tuple<std::array<uint8_t, 16>, uint64_t, uint32_t>;
  const size_t capacity_;
  const Shard shard_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<CmConnection>> by_id_;
  absl::flat_hash_map<PeerKey, CmConnection*> by_peer_comm_id_;
  absl::flat_hash_map<PeerKey, CmConnection*> by_peer_qpn_;
  using SidrKey = std::pair<std::array<uint8_t, 16>, uint32_t>;
  absl::flat_hash_map<SidrKey, CmConnection*> by_sidr_;
  PortTable ports_;
  std::vector<std::unique_ptr<CmConnection>> removed_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_CONNECTION_TABLE_H_
