// Texts for the entries of a flight recorder.
#ifndef POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_TEXT_H_
#define POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::transport {

// Returns one line without its time: "-> RC SEND Only PSN 5..20, 16 packets, 64 bytes", "timer:
// local ACK timeout", "queue pair: ERR". Only for kinds below FlightKind::kUpper.
std::string FlightText(const FlightEntry& entry);

// Returns one line per entry, with its time relative to `end_ns`. `words` returns the text of an
// entry.
std::string FlightLog(absl::Span<const FlightEntry> entries, uint64_t end_ns,
                      absl::FunctionRef<std::string(const FlightEntry&)> words = FlightText);

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_TEXT_H_
