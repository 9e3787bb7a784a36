// What CM tells of itself and its connections when it is asked.
#ifndef POLLUX_CM_CONNECTION_STATS_H_
#define POLLUX_CM_CONNECTION_STATS_H_

#include <cstdint>
#include <string>

#include "cm/connection/context.h"
#include "stack/base/report.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Statistics {
 public:
  explicit Statistics(Context* context) : context_(*context) {}

  bool Tell(const Question& question, Report* report) const;  // as engine::Reporter's
  std::string FlightLog(const Connection& connection) const;

 private:
  void ListConnections(uint32_t after, Report* report) const;
  void DescribeConnection(const Connection& connection, Report* report) const;

  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_STATS_H_
