// Optional fields in replies of telemetry.
#ifndef POLLUX_TOOLS_STAT_JSON_FIELDS_H_
#define POLLUX_TOOLS_STAT_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace pollux::tools {

// Returns 0 if there is no such number.
inline uint64_t NumberField(const nlohmann::ordered_json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// Returns an empty string if there is no such field.
inline std::string TextField(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// Returns an empty object if there is no such field.
inline const nlohmann::ordered_json& PartField(const nlohmann::ordered_json& object,
                                               const char* name) {
  static const auto* const nothing = new nlohmann::ordered_json(nlohmann::ordered_json::object());
  const auto found = object.find(name);
  return found == object.end() ? *nothing : *found;
}

// The seconds between two replies of a core, by the core's own clock, so that late answers of other
// processes do not matter; 0 without an earlier reply.
inline double SecondsBetween(const nlohmann::ordered_json& core,
                             const nlohmann::ordered_json* before) {
  const uint64_t from = before == nullptr ? 0 : NumberField(*before, "now_ns");
  const uint64_t to = NumberField(core, "now_ns");
  return from == 0 || to <= from ? 0 : static_cast<double>(to - from) * 1e-9;
}

// The busy time of a core in percent: between two of its replies, or, without an earlier one, since
// its start.
inline double BusyShare(const nlohmann::ordered_json& core, const nlohmann::ordered_json* before) {
  const uint64_t from =
      before == nullptr ? NumberField(core, "start_ns") : NumberField(*before, "now_ns");
  const uint64_t busy = before == nullptr ? 0 : NumberField(*before, "busy_ns");
  const uint64_t now = NumberField(core, "now_ns");
  if (now <= from) return 0;
  return 100 * static_cast<double>(NumberField(core, "busy_ns") - busy) /
         static_cast<double>(now - from);
}

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_JSON_FIELDS_H_
