// Settings of a CM manager.
#ifndef POLLUX_CM_CONNECTION_CONFIG_H_
#define POLLUX_CM_CONNECTION_CONFIG_H_

#include <cstdint>

namespace pollux::cm {

// Time-out codes stand for 4.096 us * 2^n.
struct ManagerConfig {
  // Limits apply to each manager, also if a device has several.
  // Connections (including time-wait) and listeners together. At the limit, destroyed
  // identifiers that wait for a DREP or are in time-wait make room for a new one, up to 64 at
  // once: those that were created first, of the address that has the most of them, or of all
  // addresses if none has 64.
  uint32_t max_ids = 16384;
  // REQs and SIDR_REQs of all listeners that are not yet accepted, rejected or destroyed, except
  // those for which LeaveBacklog() was called. Further requests are dropped.
  uint32_t max_pending_requests = 1024;
  // Half-open connections of all listeners: their REP was sent, their RTU has not arrived. At the
  // limit, a new one replaces the oldest of the address that has the most half-open connections.
  uint32_t max_half_open = 1024;
  // The defaults are those of Linux. A message is repeated after twice the packet lifetime plus the
  // peer's response time.
  uint8_t cm_response_timeout = 20;  // code, 0..31: how long either side may take to reply (4.3 s)
  uint8_t packet_lifetime = 16;      // code, 0..30: how long a packet may be in flight (0.27 s)
  uint8_t max_cm_retries = 15;       // 0..15
  uint8_t target_ack_delay = 15;  // code, 0..31: this side's time to acknowledge a packet (134 ms)
  // In nanoseconds: a request that arrives within this time after a listener ended waits this long
  // for a new listener at the same port. 0: it is rejected at once.
  uint64_t relisten_ns = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_CONFIG_H_
