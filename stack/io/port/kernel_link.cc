#include "stack/io/port/kernel_link.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace pollux::io {
namespace {

uint32_t SpeedMbps(int socket, ifreq request) {
  ethtool_cmd command = {};
  command.cmd = ETHTOOL_GSET;
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (ioctl(socket, SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t speed = ethtool_cmd_speed(&command);
  return speed == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : speed;
}

}  // namespace

LinkState KernelLink(int socket, const std::string& interface) {
  LinkState state{.up = false};
  ifreq request = {};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(socket, SIOCGIFFLAGS, &request) == 0) {
    constexpr int kWorks = IFF_UP | IFF_RUNNING;
    state.up = (request.ifr_flags & kWorks) == kWorks;
    state.speed_mbps = SpeedMbps(socket, request);
    if (ioctl(socket, SIOCGIFMTU, &request) == 0) {
      state.mtu = static_cast<uint16_t>(std::clamp(request.ifr_mtu, 0, int{UINT16_MAX}));
    }
  } else {
    state.gone = errno == ENODEV;
  }
  return state;
}

}  // namespace pollux::io
