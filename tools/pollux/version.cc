#include "tools/pollux/version.h"

#include <rte_version.h>

#include "tools/common/version_numbers.h"

// Of stamp.cc: the label that the program was linked with, "redacted" without --stamp.
extern const char pollux_build_label[];

namespace pollux::tools {

std::string VersionText() {
  const std::string label = pollux_build_label;
  const bool labeled = !label.empty() && label != "redacted";
  return "pollux " + (labeled ? label : POLLUX_VERSION "-dev") + "\n" + rte_version() + "\n" +
         POLLUX_RDMA_CORE "\n";
}

}  // namespace pollux::tools
