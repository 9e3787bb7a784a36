// The version of DPDK with which this program runs.
#ifndef POLLUX_TOOLS_DOCTOR_DPDK_VERSION_H_
#define POLLUX_TOOLS_DOCTOR_DPDK_VERSION_H_

#include <string>

namespace pollux::tools {

std::string DpdkVersion();  // "DPDK 22.11.11"

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_DPDK_VERSION_H_
