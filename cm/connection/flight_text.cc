#include "cm/connection/flight_text.h"

#include <rdma/rdma_cma.h>

#include "absl/strings/str_cat.h"
#include "cm/wire/mad.h"
#include "cm/wire/reasons.h"
#include "stack/transport/diagnostics/flight_text.h"

namespace pollux::cm {
namespace {

std::string MadText(const char* arrow, const transport::FlightEntry& entry) {
  const auto attribute = static_cast<Attribute>(entry.code);
  std::string text = absl::StrCat(arrow, " CM ", std::string(AttributeName(attribute)));
  if (attribute == Attribute::kRej) absl::StrAppend(&text, ", ", RejectReasonName(entry.detail));
  return text;
}

}  // namespace

std::string FlightText(const transport::FlightEntry& entry) {
  if (entry.kind == kFlightMadSent) return MadText("->", entry);
  if (entry.kind == kFlightMadReceived) return MadText("<-", entry);
  if (entry.kind != kFlightEvent) return transport::FlightText(entry);
  std::string text = rdma_event_str(static_cast<rdma_cm_event_type>(entry.code));
  if (entry.detail != 0) absl::StrAppend(&text, ", status ", entry.detail);
  return text;
}

}  // namespace pollux::cm
