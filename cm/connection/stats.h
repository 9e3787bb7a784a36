// CM's statistics of itself and its connections.
#ifndef POLLUX_CM_CONNECTION_STATS_H_
#define POLLUX_CM_CONNECTION_STATS_H_

#include <cstdint>
#include <string>

#include "cm/connection/context.h"
#include "stack/base/stats.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Statistics {
 public:
  explicit Statistics(Context* context) : context_(*context) {}

  bool Collect(const StatsQuery& query, Stats* stats) const;  // as StatsProvider::Collect()
  std::string FlightLog(const CmConnection& connection) const;

 private:
  void ListConnections(uint32_t after, Stats* stats) const;
  void DescribeConnection(const CmConnection& connection, Stats* stats) const;

  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_STATS_H_
