// The version of Pollux and of the software with which it was built.
#ifndef POLLUX_TOOLS_POLLUX_VERSION_H_
#define POLLUX_TOOLS_POLLUX_VERSION_H_

#include <string>

namespace pollux::tools {

// Three lines: the versions of Pollux and of DPDK, and the rdma-core interfaces that `pollux run`
// provides.
std::string VersionText();

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_VERSION_H_
