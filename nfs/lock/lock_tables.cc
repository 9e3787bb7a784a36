#include "nfs/lock/lock_tables.h"

#include <algorithm>
#include <cstdint>
#include <optional>

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

void LockTables::CloseRemoved(ServedExports* exports) {
  for (const ExportEntry& entry : exports->TakeUnused()) {
    const uint64_t id = entry.tree->id();
    // An export that was removed and returned while a call used it has another place, and with that
    // another table: calls for it do not find the locks in this one.
    const std::optional<ExportEntry> current = exports->Find(id);
    const bool is_here = current.has_value() && current->served == entry.served;
    if (!is_here) Of(*entry.served).FreeExport(id);
  }
}

}  // namespace pollux::nfs
