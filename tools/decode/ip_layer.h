// Parses the IP header of a captured packet, with IPv4 options and IPv6 extension headers. The
// packet may be truncated, and its lengths may be wrong.
#ifndef POLLUX_TOOLS_DECODE_IP_LAYER_H_
#define POLLUX_TOOLS_DECODE_IP_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

namespace pollux::decode {

// The most IPv6 extension headers that are skipped. RFC 8200 section 4.1 allows each at most once,
// except destination options.
inline constexpr int kMaxExtensionHeaders = 8;

struct IpLayer {
  nlohmann::ordered_json fields;    // an object; null if the header without options is truncated
  std::string source, destination;  // empty in that case, too
  // The protocol after options and extension headers; nothing if it is truncated or after more than
  // kMaxExtensionHeaders.
  std::optional<uint8_t> protocol;
  size_t fixed_bytes = 0;   // 20 or 40: without options and extension headers
  size_t header_bytes = 0;  // with options and extension headers
  // the packet's length according to the header; 0 if the header is truncated
  size_t total_bytes = 0;
  std::string between;    // "IPv4 options", "IPv6 hop-by-hop options"; empty: none
  bool rerouted = false;  // has a routing header, so the UDP checksum uses another destination
  bool fragment = false;
  bool more_fragments = false;
  size_t fragment_offset = 0;  // bytes

  bool IsLaterFragment() const { return fragment && fragment_offset > 0; }
};

// `packet` starts with the IP header. Returns nothing if it is empty, if its version does not match
// `ether_type`, or if the IPv4 header length is less than 20 bytes. Source: RFC 791; RFC 8200
// section 4.
std::optional<IpLayer> ParseIpLayer(uint16_t ether_type, std::span<const uint8_t> packet);

// For example "IPv6", "ICMP" or "TCP"; with the offset for a fragment.
std::string ProtocolText(uint16_t ether_type, const IpLayer& ip);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_IP_LAYER_H_
