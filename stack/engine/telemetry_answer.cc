#include "stack/engine/telemetry_answer.h"

#include <rte_telemetry.h>

#include <string>
#include <variant>

namespace pollux::engine {
namespace {

void Fill(const Report& report, rte_tel_data* data) {
  if (report.shape() == Report::Shape::kNumbers) {
    rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
    for (const uint64_t number : report.numbers()) rte_tel_data_add_array_u64(data, number);
  } else if (report.shape() == Report::Shape::kLines) {
    rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
    for (const std::string& line : report.lines()) {
      rte_tel_data_add_array_string(data, line.c_str());
    }
  } else {
    rte_tel_data_start_dict(data);
    for (const auto& [name, value] : report.fields()) {
      if (const auto* number = std::get_if<uint64_t>(&value)) {
        rte_tel_data_add_dict_u64(data, name.c_str(), *number);
      } else {
        rte_tel_data_add_dict_string(data, name.c_str(), std::get<std::string>(value).c_str());
      }
    }
  }
}

}  // namespace

int AnswerTelemetry(const absl::StatusOr<Report>& report, rte_tel_data* data) {
  if (report.ok()) {
    Fill(*report, data);
    return 0;
  }
  Report error;
  error.Set("error", std::string(report.status().message()));
  error.Set("code", static_cast<uint64_t>(report.status().code()));
  Fill(error, data);
  return 0;
}

}  // namespace pollux::engine
