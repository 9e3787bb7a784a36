#include "cm/connection/connection.h"

#include <iterator>

namespace pollux::cm {

const char* StateName(State state) {
  static constexpr const char* kNames[] = {"IDLE",           "RESOLVING",     "ADDRESS_RESOLVED",
                                           "ROUTE_RESOLVED", "LISTEN",        "REQ_SENT",
                                           "REQ_RCVD",       "REP_PENDING",   "REP_SENT",
                                           "REP_RCVD",       "ESTABLISHED",   "DREQ_SENT",
                                           "TIMEWAIT",       "SIDR_REQ_SENT", "SIDR_RESOLVED",
                                           "SIDR_REQ_RCVD",  "SIDR_ANSWERED", "CLOSED"};
  static_assert(std::size(kNames) == static_cast<size_t>(State::kClosed) + 1);
  return kNames[static_cast<size_t>(state)];
}

}  // namespace pollux::cm
