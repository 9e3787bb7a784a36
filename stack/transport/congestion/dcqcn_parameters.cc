#include "stack/transport/congestion/dcqcn_parameters.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace pollux::transport {
namespace {

using P = DcqcnParameters;

constexpr uint32_t kMaxRate = 1'000'000;          // Mb/s
constexpr uint32_t kMaxMicroseconds = 1'000'000;  // a second

struct Field {
  const char* name;
  uint32_t P::*value;
  uint32_t low, high;
};

constexpr Field kFields[] = {
    {"rpg_time_reset", &P::rpg_time_reset, 1, kMaxMicroseconds},
    {"rpg_byte_reset", &P::rpg_byte_reset, 0, 1'000'000'000},
    {"rpg_threshold", &P::rpg_threshold, 1, 31},
    {"rpg_ai_rate", &P::rpg_ai_rate, 1, kMaxRate},
    {"rpg_hai_rate", &P::rpg_hai_rate, 1, kMaxRate},
    {"rpg_min_rate", &P::rpg_min_rate, 1, kMaxRate},
    {"rpg_max_rate", &P::rpg_max_rate, 0, kMaxRate},
    {"rpg_gd", &P::rpg_gd, 10, 15},
    {"rpg_min_dec_fac", &P::rpg_min_dec_fac, 0, 100},
    {"clamp_tgt_rate", &P::clamp_tgt_rate, 0, 1},
    {"rate_to_set_on_first_cnp", &P::rate_to_set_on_first_cnp, 0, kMaxRate},
    {"rate_reduce_monitor_period", &P::rate_reduce_monitor_period, 0, kMaxMicroseconds},
    {"dce_tcp_g", &P::dce_tcp_g, 0, 1023},
    {"dce_tcp_rtt", &P::dce_tcp_rtt, 1, kMaxMicroseconds},
    {"initial_alpha_value", &P::initial_alpha_value, 1, 1023},
    {"min_time_between_cnps", &P::min_time_between_cnps, 0, kMaxMicroseconds},
    {"cnp_802p_prio", &P::cnp_802p_prio, 0, 7},
    {"cnp_dscp", &P::cnp_dscp, 0, 63},
};

absl::Status Set(absl::string_view name, absl::string_view text, DcqcnParameters* parameters) {
  const Field* field = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const Field& each) { return name == each.name; });
  if (field == std::end(kFields)) {
    std::vector<std::string> names;
    for (const Field& each : kFields) names.emplace_back(each.name);
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown DCQCN parameter '", name, "'; the parameters are ", absl::StrJoin(names, ", ")));
  }
  uint32_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < field->low || value > field->high) {
    return absl::InvalidArgumentError(absl::StrFormat("%s=%s: a number from %u to %u is allowed",
                                                      name, text, field->low, field->high));
  }
  parameters->*field->value = value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DcqcnParameters> DcqcnParameters::Parse(std::string_view text) {
  DcqcnParameters parameters;
  const absl::string_view list(text.data(), text.size());
  for (const absl::string_view part : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part, "' is not NAME=VALUE, as in rpg_ai_rate=40"));
    }
    if (absl::Status status = Set(pair[0], pair[1], &parameters); !status.ok()) return status;
  }
  if (parameters.rpg_max_rate != 0 && parameters.rpg_max_rate < parameters.rpg_min_rate) {
    return absl::InvalidArgumentError(absl::StrFormat("rpg_max_rate=%u is below rpg_min_rate=%u",
                                                      parameters.rpg_max_rate,
                                                      parameters.rpg_min_rate));
  }
  return parameters;
}

std::string DcqcnParameters::Help() {
  std::string help;
  const DcqcnParameters defaults;
  for (const Field& field : kFields) {
    absl::StrAppendFormat(&help, "%s%s=%u", help.empty() ? "" : "\n", field.name,
                          defaults.*field.value);
  }
  return help;
}

}  // namespace pollux::transport
