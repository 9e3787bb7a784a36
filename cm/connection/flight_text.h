// CM's entries in a flight recorder, and their texts.
#ifndef POLLUX_CM_CONNECTION_FLIGHT_TEXT_H_
#define POLLUX_CM_CONNECTION_FLIGHT_TEXT_H_

#include <cstdint>
#include <string>

#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::cm {

// The kinds of entries. The comments give `code` and `detail` of transport::FlightEntry.
inline constexpr auto kFlightMadSent = transport::FlightKind::kUpper;  // Attribute; REJ reason
inline constexpr auto kFlightMadReceived =                             // the same
    static_cast<transport::FlightKind>(static_cast<int>(transport::FlightKind::kUpper) + 1);
inline constexpr auto kFlightEvent =  // rdma_cm_event_type; the event's status without its sign
    static_cast<transport::FlightKind>(static_cast<int>(transport::FlightKind::kUpper) + 2);

// The detail of a message: the reason of a REJ, 0 for others.
template <class T>
uint16_t ReasonOf(const T& message) {
  if constexpr (requires { message.reason; }) {
    return message.reason;
  } else {
    return 0;
  }
}

// For example "-> CM REQ", "<- CM REJ, stale connection", "RDMA_CM_EVENT_ESTABLISHED". The
// transport supplies the texts of its own entries.
std::string FlightText(const transport::FlightEntry& entry);

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_FLIGHT_TEXT_H_
