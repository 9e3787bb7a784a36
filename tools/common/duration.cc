#include "tools/common/duration.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::tools {
namespace {

constexpr struct {
  const char* name;
  double ns;
} kUnits[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};

}  // namespace

absl::StatusOr<double> ParseDurationNs(const std::string& text) {
  const size_t end = text.find_first_not_of("0123456789.");
  double number = 0;
  if (end != std::string::npos && absl::SimpleAtod(text.substr(0, end), &number)) {
    for (const auto& unit : kUnits) {
      if (text.substr(end) == unit.name) return number * unit.ns;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a time, such as 20us, 1.5ms or 2s (ns, us, ms, s)"));
}

std::string FormatDurationNs(double ns) {
  for (const auto& unit : kUnits) {
    if (ns < unit.ns && unit.ns != 1) continue;
    return absl::StrFormat("%.*f%s", unit.ns == 1 ? 0 : 3, ns / unit.ns, unit.name);
  }
  return "";
}

}  // namespace pollux::tools
