// CM's time arithmetic. Source: IB specification volume 1, section 12.7; options that it leaves
// open are chosen as in Linux.
#ifndef POLLUX_CM_CONNECTION_TIMEOUTS_H_
#define POLLUX_CM_CONNECTION_TIMEOUTS_H_

#include <algorithm>
#include <cstdint>

#include "cm/connection/config.h"

namespace pollux::cm {

inline constexpr uint8_t kMaxTimeoutCode = 31;

// The time that an MRA asks for while an application decides: 69 s, as in Linux.
inline constexpr uint8_t kMraServiceTimeout = 24;

// 4.096 us * 2^code, in nanoseconds.
constexpr uint64_t TimeoutNs(uint8_t code) {
  return uint64_t{4096} << std::min(code, kMaxTimeoutCode);
}

// The time after which an unanswered message is repeated. The peer's code is limited to 24 (69 s),
// so that it cannot block a connection for hours.
constexpr uint64_t ResendAfterNs(uint8_t packet_lifetime, uint8_t response_timeout) {
  constexpr uint8_t kMaxResponseTimeout = kMraServiceTimeout;
  return 2 * TimeoutNs(packet_lifetime) +
         TimeoutNs(std::min(response_timeout, kMaxResponseTimeout));
}

// The queue pair's timeout: the packet lifetime of the path in both directions plus the ACK delay
// of the other side.
constexpr uint8_t AckTimeoutCode(uint8_t packet_lifetime, uint8_t ack_delay) {
  const auto way = static_cast<uint8_t>(packet_lifetime + 1);
  const uint8_t greater = std::max(way, ack_delay);
  const uint8_t lesser = std::min(way, ack_delay);
  const auto sum = static_cast<uint8_t>(lesser + 1 >= greater ? greater + 1 : greater);
  return std::min(sum, kMaxTimeoutCode);
}

// The timeout that this side sends to the peer unless the user sets one.
constexpr uint8_t OwnAckTimeoutCode(const ManagerConfig& config) {
  return AckTimeoutCode(config.packet_lifetime, config.target_ack_delay);
}

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_TIMEOUTS_H_
