#include "cm/connection/connection_table.h"

namespace pollux::cm {
namespace {

template <class Map, class Key>
Connection* Lookup(const Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &*it->second;
}

std::tuple<std::array<uint8_t, 16>, uint64_t, uint32_t> KeyOf(const Connection& connection,
                                                              uint32_t number) {
  return {connection.peer().address.raw, connection.remote_ca_guid, number};
}

}  // namespace

Connection* ConnectionTable::Add(std::unique_ptr<Connection> connection, Random& random) {
  if (by_id_.size() >= capacity_) return nullptr;
  uint32_t id;
  do {
    id = shard_.MakeId(random.Next32());
  } while (id == 0 || by_id_.contains(id));
  connection->local_comm_id = id;
  return by_id_.emplace(id, std::move(connection)).first->second.get();
}

void ConnectionTable::Remove(Connection& connection) {
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

Connection* ConnectionTable::Find(uint32_t local_comm_id) const {
  return Lookup(by_id_, local_comm_id);
}

Connection* ConnectionTable::FindByQpn(Qpn qpn) const {
  for (const auto& [id, connection] : by_id_) {
    if (connection->local_qpn == qpn.value && !connection->destroyed) return connection.get();
  }
  return nullptr;
}

void ConnectionTable::Visit(absl::FunctionRef<void(const Connection& connection)> visit) const {
  for (const auto& [id, connection] : by_id_) visit(*connection);
}

void ConnectionTable::IndexPeer(Connection& connection) {
  by_peer_comm_id_[KeyOf(connection, connection.remote_comm_id)] = &connection;
  by_peer_qpn_[KeyOf(connection, connection.remote_qpn)] = &connection;
  connection.indexed = true;
}

void ConnectionTable::UnindexPeer(Connection& connection) {
  if (connection.sidr_indexed) {
    by_sidr_.erase({connection.peer().address.raw, connection.remote_comm_id});
    connection.sidr_indexed = false;
  }
  if (!connection.indexed) return;
  by_peer_comm_id_.erase(KeyOf(connection, connection.remote_comm_id));
  UnindexPeerQpn(connection);
  connection.indexed = false;
}

void ConnectionTable::UnindexPeerQpn(Connection& connection) {
  // It may be another connection's by now.
  const auto it = by_peer_qpn_.find(KeyOf(connection, connection.remote_qpn));
  if (it != by_peer_qpn_.end() && it->second == &connection) by_peer_qpn_.erase(it);
}

Connection* ConnectionTable::FindByPeerCommId(const Gid& peer, uint64_t ca_guid,
                                              uint32_t comm_id) const {
  return Lookup(by_peer_comm_id_, PeerKey{peer.raw, ca_guid, comm_id});
}

Connection* ConnectionTable::FindByPeerQpn(const Gid& peer, uint64_t ca_guid, uint32_t qpn) const {
  return Lookup(by_peer_qpn_, PeerKey{peer.raw, ca_guid, qpn});
}

void ConnectionTable::IndexSidr(Connection& connection) {
  by_sidr_[{connection.peer().address.raw, connection.remote_comm_id}] = &connection;
  connection.sidr_indexed = true;
}

Connection* ConnectionTable::FindSidr(const Gid& from, uint32_t request_id) const {
  return Lookup(by_sidr_, SidrKey{from.raw, request_id});
}

}  // namespace pollux::cm
