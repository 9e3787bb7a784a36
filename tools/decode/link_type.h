// The link-layer headers of captured frames.
#ifndef POLLUX_TOOLS_DECODE_LINK_TYPE_H_
#define POLLUX_TOOLS_DECODE_LINK_TYPE_H_

#include <cstdint>

namespace pollux::decode {

// Source: the list of link-layer header types of tcpdump.org.
enum class LinkType : uint8_t {
  kEthernet,
  kLinuxCooked,   // LINKTYPE_LINUX_SLL
  kLinuxCooked2,  // LINKTYPE_LINUX_SLL2
  kIp,            // LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6: the IP version is in the packet
};

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_LINK_TYPE_H_
