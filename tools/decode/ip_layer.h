// The IP header of a captured packet and what stands between it and the next protocol: IPv4 options
// and IPv6 extension headers. As far as it was kept, and whatever its lengths promise.
#ifndef POLLUX_TOOLS_DECODE_IP_LAYER_H_
#define POLLUX_TOOLS_DECODE_IP_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

namespace pollux::decode {

// IPv6 extension headers that are stepped over: RFC 8200 section 4.1 has each at most once, but for
// the destination options.
inline constexpr int kMaxExtensionHeaders = 8;

struct IpLayer {
  nlohmann::ordered_json fields;    // an object; null when the header without options is not whole
  std::string source, destination;  // empty likewise
  // After options and extension headers; nothing when it is not there, or past
  // kMaxExtensionHeaders.
  std::optional<uint8_t> protocol;
  size_t fixed_bytes = 0;   // 20 or 40: the header alone
  size_t header_bytes = 0;  // with options or extension headers
  size_t total_bytes = 0;   // with all that follows, as the header says; 0 when it is not whole
  std::string between;      // "IPv4 options", "IPv6 hop-by-hop options"; empty: nothing there
  bool rerouted = false;    // a routing header: the destination is not the UDP checksum's
  bool fragment = false;
  bool more_fragments = false;
  size_t fragment_offset = 0;  // bytes

  bool IsLaterFragment() const { return fragment && fragment_offset > 0; }
};

// `packet` begins where the IP header does. Nothing when it is empty, when the version is not
// `ether_type`'s, or when an IPv4 header length is below 20 bytes.
// Source: RFC 791; RFC 8200 section 4.
std::optional<IpLayer> ParseIpLayer(uint16_t ether_type, std::span<const uint8_t> packet);

// "IPv6", "ICMP", "TCP"; with its place when the packet is a fragment.
std::string ProtocolText(uint16_t ether_type, const IpLayer& ip);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_IP_LAYER_H_
