// Fields of telemetry's answers, which need not be there.
#ifndef POLLUX_TOOLS_STAT_JSON_FIELDS_H_
#define POLLUX_TOOLS_STAT_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace pollux::tools {

// 0: no such number.
inline uint64_t NumberField(const nlohmann::ordered_json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// Empty: no such text.
inline std::string TextField(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// An empty object: no such part.
inline const nlohmann::ordered_json& PartField(const nlohmann::ordered_json& object,
                                               const char* name) {
  static const auto* const nothing = new nlohmann::ordered_json(nlohmann::ordered_json::object());
  const auto found = object.find(name);
  return found == object.end() ? *nothing : *found;
}

// In percent of the time between two answers of a core; without one before, since its start.
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
