#include "cm/connection/half_open.h"

#include <algorithm>
#include <utility>

namespace pollux::cm {

Connection* HalfOpen::Enter(Connection& connection) {
  connection.is_half_open = true;
  by_address_[connection.peer().address].push_back({++last_order_, &connection});
  if (++size_ <= capacity_) return nullptr;
  const std::deque<Entry>* worst = nullptr;
  for (const auto& [address, entries] : by_address_) {
    if (worst == nullptr || entries.size() > worst->size() ||
        (entries.size() == worst->size() && entries.front().order < worst->front().order)) {
      worst = &entries;
    }
  }
  return worst->front().connection;
}

void HalfOpen::Leave(Connection& connection) {
  if (!std::exchange(connection.is_half_open, false)) return;
  const auto it = by_address_.find(connection.peer().address);
  std::erase_if(it->second, [&](const Entry& one) { return one.connection == &connection; });
  if (it->second.empty()) by_address_.erase(it);
  --size_;
}

}  // namespace pollux::cm
