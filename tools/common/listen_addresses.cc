#include "tools/common/listen_addresses.h"

#include "absl/strings/str_join.h"

namespace pollux::tools {

std::vector<SocketAddress> ListenAddresses(Node& node, uint16_t port) {
  return node.Run([&node, port] {
    const ip::Interface& interface = node.device().interface();
    std::vector<SocketAddress> all, link_local;
    for (uint32_t i = 0; i < interface.gid_table_size(); ++i) {
      const absl::StatusOr<Gid> gid = interface.QueryGid(static_cast<int>(i));
      if (!gid.ok()) continue;
      (gid->IsLinkLocal() ? link_local : all).push_back({.address = *gid, .port = port});
    }
    return all.empty() ? link_local : all;
  });
}

std::string ListOf(const std::vector<SocketAddress>& endpoints) {
  return absl::StrJoin(endpoints, ", ", [](std::string* out, const SocketAddress& endpoint) {
    out->append(ToString(endpoint));
  });
}

const std::string& Place(const engine::DeviceOptions& device) {
  return device.netdev.empty() ? device.port : device.netdev;
}

}  // namespace pollux::tools
