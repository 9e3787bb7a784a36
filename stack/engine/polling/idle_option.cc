#include "stack/engine/polling/idle_option.h"

#include "absl/strings/str_cat.h"

namespace pollux::engine {

absl::StatusOr<Idle> ParseIdle(std::string_view text) {
  if (text == "spin") return Idle::kSpin;
  if (text == "yield") return Idle::kYield;
  if (text == "sleep") return Idle::kSleep;
  return absl::InvalidArgumentError(absl::StrCat("'", absl::string_view(text.data(), text.size()),
                                                 "' is not one of spin, yield, sleep"));
}

}  // namespace pollux::engine
