#include "cm/connection/connection_table.h"

namespace pollux::cm {
namespace {

template <class Map, class Key>
CmConnection* Lookup(const Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &*it->second;
}

std::tuple<std::array<uint8_t, 16>, uint64_t, uint32_t> KeyOf(const CmConnection& connection,
                                                              uint32_t number) {
  return {connection.peer().address.raw, connection.remote_ca_guid, number};
}

}  // namespace

ConnectionTable::~ConnectionTable() {
  // The claims may outlive the manager.
  for (const auto& [id, connection] : by_id_) ports_.ReleaseClaim(*connection);
}

CmConnection* ConnectionTable::Add(std::unique_ptr<CmConnection> connection, Random& random) {
  if (is_full()) return nullptr;
  uint32_t id;
  do {
    id = shard_.MakeId(random.Next32());
  } while (id == 0 || by_id_.contains(id));
  connection->local_comm_id = id;
  return by_id_.emplace(id, std::move(connection)).first->second.get();
}

void ConnectionTable::Remove(CmConnection& connection) {
  connection.timer.Cancel();
  UnindexPeer(connection);
  ports_.Release(connection);
  const auto it = by_id_.find(connection.local_comm_id);
  removed_.push_back(std::move(it->second));
  by_id_.erase(it);
}

bool ConnectionTable::FreeRemoved() {
  const bool any = !removed_.empty();
  removed_.clear();
  return any;
}

CmConnection* ConnectionTable::Find(uint32_t local_comm_id) const {
  return Lookup(by_id_, local_comm_id);
}

CmConnection* ConnectionTable::FindByQpn(Qpn qpn) const {
  for (const auto& [id, connection] : by_id_) {
    if (connection->local_qpn == qpn.value && !connection->destroyed) return connection.get();
  }
  return nullptr;
}

void ConnectionTable::Visit(absl::FunctionRef<void(const CmConnection& connection)> visit) const {
  for (const auto& [id, connection] : by_id_) visit(*connection);
}

void ConnectionTable::IndexPeer(CmConnection& connection) {
  by_peer_comm_id_[KeyOf(connection, connection.remote_comm_id)] = &connection;
  by_peer_qpn_[KeyOf(connection, connection.remote_qpn)] = &connection;
  connection.indexed = true;
}

void ConnectionTable::UnindexPeer(CmConnection& connection) {
  if (connection.sidr_indexed) {
    by_sidr_.erase({connection.peer().address.raw, connection.remote_comm_id});
    connection.sidr_indexed = false;
  }
  if (!connection.indexed) return;
  by_peer_comm_id_.erase(KeyOf(connection, connection.remote_comm_id));
  UnindexPeerQpn(connection);
  connection.indexed = false;
}

void ConnectionTable::UnindexPeerQpn(CmConnection& connection) {
  // It may be another connection's by now.
  const auto it = by_peer_qpn_.find(KeyOf(connection, connection.remote_qpn));
  if (it != by_peer_qpn_.end() && it->second == &connection) by_peer_qpn_.erase(it);
}

CmConnection* ConnectionTable::FindByPeerCommId(const Gid& peer, uint64_t ca_guid,
                                                uint32_t comm_id) const {
  return Lookup(by_peer_comm_id_, PeerKey{peer.raw, ca_guid, comm_id});
}

CmConnection* ConnectionTable::FindByPeerQpn(const Gid& peer, uint64_t ca_guid,
                                             uint32_t qpn) const {
  return Lookup(by_peer_qpn_, PeerKey{peer.raw, ca_guid, qpn});
}

void ConnectionTable::IndexSidr(CmConnection& connection) {
  by_sidr_[{connection.peer().address.raw, connection.remote_comm_id}] = &connection;
  connection.sidr_indexed = true;
}

CmConnection* ConnectionTable::FindSidr(const Gid& from, uint32_t request_id) const {
  return Lookup(by_sidr_, SidrKey{from.raw, request_id});
}

}  // namespace pollux::cm
