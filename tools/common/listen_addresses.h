// The addresses of a command's service, for messages.
#ifndef POLLUX_TOOLS_COMMON_LISTEN_ADDRESSES_H_
#define POLLUX_TOOLS_COMMON_LISTEN_ADDRESSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/socket_address.h"
#include "stack/engine/device.h"
#include "tools/common/node.h"

namespace pollux::tools {

// All addresses of the node except link-local ones, or the link-local ones if there are no others.
std::vector<SocketAddress> ListenAddresses(Node& node, uint16_t port);
// "192.0.2.1:20049, [2001:db8::1]:20049"
std::string ListOf(const std::vector<SocketAddress>& endpoints);
// The name of the device's port or interface.
const std::string& Place(const engine::DeviceOptions& device);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_LISTEN_ADDRESSES_H_
