#include "compat/runtime/dpdk_drivers.h"

#include <rte_build_config.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "stack/io/port/devargs.h"

namespace pollux::compat {
namespace {

constexpr char kDriverFolder[] = RTE_EAL_PMD_PATH;

// Null: linked with this library, or not known.
const char* FileOf(io::Driver driver) {
  switch (driver) {
    case io::Driver::kAfPacket:
      return "librte_net_af_packet.so";
    case io::Driver::kAfXdp:
      return "librte_net_af_xdp.so";
    case io::Driver::kTap:
      return "librte_net_tap.so";
    case io::Driver::kMemif:
      return "librte_net_memif.so";
    case io::Driver::kRing:
    case io::Driver::kPci:
    case io::Driver::kOther:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> DriverFiles(const engine::DeviceOptions& options) {
  const io::Driver driver =
      options.netdev.empty() ? io::DriverOf(options.port) : io::Driver::kAfPacket;
  const char* const of_port = FileOf(driver);
  if (of_port == nullptr) return {};
  std::vector<std::string> files;
  // And that of packet pools.
  for (const char* file : {"librte_mempool_ring.so", of_port}) {
    files.push_back(absl::StrCat(kDriverFolder, "/", file));
    if (access(files.back().c_str(), R_OK) != 0) return {};
  }
  return files;
}

ScopedHiddenDrivers::ScopedHiddenDrivers(bool hides)
    : hides_(hides && pollux_hide_folder != nullptr) {
  if (hides_) pollux_hide_folder(kDriverFolder);
}

ScopedHiddenDrivers::~ScopedHiddenDrivers() {
  if (hides_) pollux_hide_folder(nullptr);
}

}  // namespace pollux::compat
