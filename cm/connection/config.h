// What connection management can be told to do otherwise.
#ifndef POLLUX_CM_CONNECTION_CONFIG_H_
#define POLLUX_CM_CONNECTION_CONFIG_H_

#include <cstdint>

namespace pollux::cm {

// Time-out codes stand for 4.096 us * 2^n.
struct ManagerConfig {
  // Each of a manager, also where a device has several.
  uint32_t max_ids = 16384;  // connections (in time-wait too) and listeners together
  // REQs and SIDR_REQs not yet accepted, rejected or destroyed, of all listeners, but for those of
  // which LeaveBacklog() was called; more are dropped.
  uint32_t max_pending_requests = 1024;
  // Connections of all listeners whose REP is sent and whose RTU has not come. One more takes the
  // place of the oldest of the address that has most.
  uint32_t max_half_open = 1024;
  // As Linux. A message is sent again after 2 * packet lifetime + the peer's response time.
  uint8_t cm_response_timeout = 20;  // code, 0..31: what both sides may take to answer (4.3 s)
  uint8_t packet_lifetime = 16;      // code, 0..30: how long a packet may be on its way (0.27 s)
  uint8_t max_cm_retries = 15;       // 0..15
  uint8_t target_ack_delay = 15;     // code, 0..31: this side's time to acknowledge (134 ms)
  // How long a request waits for a listener when the one before ended no longer ago than that; 0:
  // requests are refused when nobody listens.
  uint64_t relisten_ns = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_CONFIG_H_
