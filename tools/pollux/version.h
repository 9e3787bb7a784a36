// Which Pollux this is, and what it was built with.
#ifndef POLLUX_TOOLS_POLLUX_VERSION_H_
#define POLLUX_TOOLS_POLLUX_VERSION_H_

#include <string>

namespace pollux::tools {

// Three lines: the version, DPDK's, and the interfaces of rdma-core that `pollux run` offers.
std::string VersionText();

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_VERSION_H_
