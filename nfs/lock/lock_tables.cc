#include "nfs/lock/lock_tables.h"

#include <algorithm>

namespace pollux::nfs {

LockTables::LockTables(const ServedExports& exports, const LockLimits& limits) {
  for (const auto& served : exports.all()) tables_.try_emplace(served.get(), limits);
}

bool LockTables::IsHolder(const LockClient& client) {
  return std::ranges::any_of(tables_, [&](auto& of) { return of.second.Has(client); });
}

std::map<LockClient, ClientLocks> LockTables::Held() {
  std::map<LockClient, ClientLocks> all;
  for (auto& [served, table] : tables_) {
    for (const auto& [client, here] : table.Clients()) {
      ClientLocks& locks = all[client];
      locks.files += here.files;
      locks.ranges += here.ranges;
      locks.awaited += here.awaited;
      locks.shares += here.shares;
    }
  }
  return all;
}

std::set<LockClient> LockTables::Holders() {
  std::set<LockClient> holders;
  for (const auto& [client, locks] : Held()) holders.insert(client);
  return holders;
}

std::set<Gid> LockTables::Hosts() {
  std::set<Gid> hosts;
  for (const LockClient& holder : Holders()) hosts.insert(holder.address);
  return hosts;
}

}  // namespace pollux::nfs
