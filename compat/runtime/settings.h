// What `pollux run` tells the program that it starts: the port to open, in the environment.
#ifndef POLLUX_COMPAT_RUNTIME_SETTINGS_H_
#define POLLUX_COMPAT_RUNTIME_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/idle_option.h"

namespace pollux::compat {

// A line NAME=VALUE for each option of `pollux run`, NAME alone for one without a value.
inline constexpr char kSettingsVariable[] = "POLLUX_RUN";

struct Settings {
  engine::DeviceOptions device;  // without the capture, which wants EAL first
  // One worker, and no huge page has to be there for it.
  engine::EalOptions eal{.memory_mib = 128};
  std::string capture;      // a file; empty: none
  std::optional<int> core;  // CPU of the progress thread
  engine::Idle idle = engine::Idle::kYield;
  std::string supervisor;      // the file of the program; empty: none is started
  uint32_t yield_after = 256;  // idle turns before that; 0: never

  // InvalidArgument names the line that is not understood.
  static absl::StatusOr<Settings> Parse(std::string_view text);
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_SETTINGS_H_
