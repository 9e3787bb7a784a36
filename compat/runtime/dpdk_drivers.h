// Which of DPDK's drivers a port needs.
#ifndef POLLUX_COMPAT_RUNTIME_DPDK_DRIVERS_H_
#define POLLUX_COMPAT_RUNTIME_DPDK_DRIVERS_H_

#include <string>
#include <vector>

#include "compat/loader/export.h"
#include "stack/engine/device.h"

// Of the library that `pollux run` preloads, loader/device_file.cc; null in programs that were
// started without it. Nobody finds that folder by stat(2) any more; null: everybody does.
POLLUX_EXPORT __attribute__((weak)) void pollux_hide_folder(const char* path);

namespace pollux::compat {

// The files of those that carry the port; none: every one that there is, as for PCI devices, whose
// driver is whichever knows them.
std::vector<std::string> DriverFiles(const engine::DeviceOptions& options);

// While it lives EAL finds no drivers but those that it is given by their files.
class ScopedHiddenDrivers {
 public:
  explicit ScopedHiddenDrivers(bool hides);
  ~ScopedHiddenDrivers();
  ScopedHiddenDrivers(const ScopedHiddenDrivers&) = delete;
  ScopedHiddenDrivers& operator=(const ScopedHiddenDrivers&) = delete;

 private:
  const bool hides_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_DPDK_DRIVERS_H_
