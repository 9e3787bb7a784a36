#include "tools/doctor/dpdk_version.h"

#include <rte_version.h>

namespace pollux::tools {

std::string DpdkVersion() { return rte_version(); }

}  // namespace pollux::tools
