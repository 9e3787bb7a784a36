#include "cm/connection/half_open.h"

#include <algorithm>
#include <utility>

namespace pollux::cm {

CmConnection* HalfOpen::Enter(CmConnection& connection, uint32_t max_of_listener) {
  connection.is_half_open = true;
  groups_[GroupOf(connection)].push_back({++last_order_, &connection});
  ++size_;
  const bool is_one_of_too_many = ++of_listeners_[connection.listener_comm_id] > max_of_listener;
  if (!is_one_of_too_many && size_ <= capacity_) return nullptr;
  const std::deque<Entry>* worst = nullptr;
  for (const auto& [group, entries] : groups_) {
    if (is_one_of_too_many && group.listener != connection.listener_comm_id) continue;
    if (worst == nullptr || entries.size() > worst->size() ||
        (entries.size() == worst->size() && entries.front().order < worst->front().order)) {
      worst = &entries;
    }
  }
  return worst->front().connection;
}

void HalfOpen::Leave(CmConnection& connection) {
  if (!std::exchange(connection.is_half_open, false)) return;
  const auto group = groups_.find(GroupOf(connection));
  std::erase_if(group->second, [&](const Entry& one) { return one.connection == &connection; });
  if (group->second.empty()) groups_.erase(group);
  const auto listener = of_listeners_.find(connection.listener_comm_id);
  if (--listener->second == 0) of_listeners_.erase(listener);
  --size_;
}

}  // namespace pollux::cm
