#include "stack/transport/diagnostics/flight_text.h"

#include <infiniband/verbs.h>

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {
namespace {

std::string OpcodeName(uint8_t opcode) {
  const wire::OpcodeInfo* const info = wire::FindOpcode(opcode);
  return info != nullptr ? info->name : absl::StrFormat("opcode 0x%02x", opcode);
}

std::string PacketText(const char* arrow, const FlightEntry& entry) {
  std::string text = absl::StrCat(arrow, " ", OpcodeName(entry.code), " PSN ", entry.psn.value());
  if (entry.count > 1) {
    absl::StrAppend(&text, "..", (entry.psn + (entry.count - 1u)).value(), ", ", entry.count,
                    " packets");
  }
  if (entry.kind == FlightKind::kDropped) {
    return absl::StrCat(text, ", dropped: ", DropName(static_cast<Drop>(entry.detail)));
  }
  if (entry.code == static_cast<uint8_t>(wire::Opcode::kRcAcknowledge)) {
    return absl::StrCat(text, ", ", wire::SyndromeName(static_cast<uint8_t>(entry.detail)));
  }
  const wire::OpcodeInfo* const info = wire::FindOpcode(entry.code);
  if (info != nullptr && !info->has_payload) return text;
  return absl::StrCat(text, ", ", entry.detail, " bytes");
}

const char* StateName(uint8_t state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state < std::size(kNames) ? kNames[state] : "unknown";
}

const char* TimerName(uint8_t timer) {
  static constexpr const char* kNames[] = {
      "local ACK timeout", "no answer for a round trip, a probe follows", "RNR wait is over"};
  return timer < std::size(kNames) ? kNames[timer] : "unknown";
}

}  // namespace

std::string FlightText(const FlightEntry& entry) {
  switch (entry.kind) {
    case FlightKind::kSent:
      return PacketText("->", entry);
    case FlightKind::kReceived:
      return PacketText("<-", entry);
    case FlightKind::kDropped:
      // Those of a flood have PSNs of any kind.
      return entry.count == 1
                 ? PacketText("<-", entry)
                 : absl::StrCat("<- ", entry.count,
                                " packets, dropped: ", DropName(static_cast<Drop>(entry.detail)));
    case FlightKind::kQpState:
      return absl::StrCat("queue pair: ", StateName(entry.code));
    case FlightKind::kTimer:
      return absl::StrCat("timer: ", TimerName(entry.code));
    case FlightKind::kFailed:
      return absl::StrCat("work request failed: ",
                          ibv_wc_status_str(static_cast<ibv_wc_status>(entry.code)));
    case FlightKind::kEvent:
      return absl::StrCat("event: ", ibv_event_type_str(static_cast<ibv_event_type>(entry.code)));
    default:
      return "unknown";
  }
}

std::string FlightLog(absl::Span<const FlightEntry> entries, uint64_t end_ns,
                      absl::FunctionRef<std::string(const FlightEntry&)> words) {
  std::string log;
  for (const FlightEntry& entry : entries) {
    const uint64_t ago_ns = end_ns > entry.time_ns ? end_ns - entry.time_ns : 0;
    absl::StrAppendFormat(&log, "  %14.6f s  %s\n", -1e-9 * static_cast<double>(ago_ns),
                          words(entry));
  }
  return log;
}

}  // namespace pollux::transport
