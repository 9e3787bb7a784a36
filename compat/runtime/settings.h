// The settings that `pollux run` passes to the program in the environment: the port to open, and
// how.
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

// One line for each option of `pollux run`: NAME=VALUE, or NAME for an option without a value.
inline constexpr char kSettingsVariable[] = "POLLUX_RUN";

// The default of --queue-pairs with --netdev: 128 programs with as many can share an interface.
inline constexpr uint32_t kQueuePairsOnNetdev = 2045;

struct Settings {
  engine::DeviceOptions device;  // without the capture, which needs EAL first
  // Enough for one worker; huge pages are not required.
  engine::EalOptions eal;
  std::string capture;      // a file; empty: none
  std::optional<int> core;  // CPU of the progress thread
  engine::Idle idle = engine::Idle::kYield;
  std::string supervisor;      // path of the supervisor's executable; empty: none is started
  uint32_t yield_after = 256;  // idle turns before it yields; 0: never

  // InvalidArgument quotes the invalid line.
  static absl::StatusOr<Settings> Parse(std::string_view text);
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_SETTINGS_H_
