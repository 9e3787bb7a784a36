#include "stack/engine/telemetry_reply.h"

#include <rte_telemetry.h>
#include <rte_version.h>

#include <string>
#include <variant>

namespace pollux::engine {
namespace {

#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)  // which renamed these
constexpr auto rte_tel_data_add_array_uint = rte_tel_data_add_array_u64;
constexpr auto rte_tel_data_add_dict_uint = rte_tel_data_add_dict_u64;
#define RTE_TEL_UINT_VAL RTE_TEL_U64_VAL
#endif

void Fill(const Stats& stats, rte_tel_data* data) {
  if (stats.shape() == Stats::Shape::kNumbers) {
    rte_tel_data_start_array(data, RTE_TEL_UINT_VAL);
    for (const uint64_t number : stats.numbers()) rte_tel_data_add_array_uint(data, number);
  } else if (stats.shape() == Stats::Shape::kLines) {
    rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
    for (const std::string& line : stats.lines()) {
      rte_tel_data_add_array_string(data, line.c_str());
    }
  } else {
    rte_tel_data_start_dict(data);
    for (const auto& [name, value] : stats.fields()) {
      if (const auto* number = std::get_if<uint64_t>(&value)) {
        rte_tel_data_add_dict_uint(data, name.c_str(), *number);
      } else {
        rte_tel_data_add_dict_string(data, name.c_str(), std::get<std::string>(value).c_str());
      }
    }
  }
}

}  // namespace

int ReplyToTelemetry(const absl::StatusOr<Stats>& stats, rte_tel_data* data) {
  if (stats.ok()) {
    Fill(*stats, data);
    return 0;
  }
  Stats error;
  error.Set("error", std::string(stats.status().message()));
  error.Set("code", static_cast<uint64_t>(stats.status().code()));
  Fill(error, data);
  return 0;
}

}  // namespace pollux::engine
