// Decodes captured frames to text: RoCEv2 and RoCEv1 packets, and the CM messages and RPC-over-RDMA
// headers in them.
#ifndef POLLUX_TOOLS_DECODE_DECODER_H_
#define POLLUX_TOOLS_DECODE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "stack/wire/roce_packet.h"
#include "tools/decode/ip_layer.h"
#include "tools/decode/link_layer.h"
#include "tools/decode/rpc_connections.h"

namespace pollux::decode {

struct DecodedFrame {
  nlohmann::ordered_json fields;  // an object with one object per header, in wire order
  std::string source;             // addresses for one line: IP, otherwise MAC
  std::string destination;
  std::string summary;  // for one line
  std::string problem;  // why the frame is invalid; empty if it is valid or not RoCE
  // "ICRC not checked: after IPv4 options", for which it is not defined. Not a failure.
  std::string unchecked;
  // "ICRC not checked: cut to 60 of 1082 bytes": the capture truncated a RoCE packet, or a packet
  // so much that its type is unknown. Not a failure.
  std::string cut;
  bool roce = false;  // of either version, valid or not
};

// Decodes the frames of one capture in order, because it remembers which queue pairs carry
// RPC-over-RDMA. Accepts any bytes and decodes as much of them as possible.
class Decoder {
 public:
  struct Options {
    // Assume that every RC Send begins with an RPC-over-RDMA header, for captures without the CM
    // exchange.
    bool rpcrdma = false;
    LinkType link = LinkType::kEthernet;  // of all frames
  };
  explicit Decoder(const Options& options) : options_(options) {}

  // `original_bytes` exceeds frame.size() if the capture truncated the frame.
  DecodedFrame Decode(std::span<const uint8_t> frame, size_t original_bytes);

 private:
  // Both return whether the capture has the whole packet, including its ICRC. `missing` is the
  // number of bytes that the capture does not have.
  bool DecodeRoceV2(uint16_t ether_type, const IpLayer& ip, std::span<const uint8_t> l3,
                    size_t missing, DecodedFrame* decoded);
  bool DecodeRoceV1(std::span<const uint8_t> l3, size_t missing, DecodedFrame* decoded);
  // Sets restored_ to the packet at `l3` as an Ethernet frame, without options and extension
  // headers between the IP header and UDP, and with zeros for missing bytes. Returns the number of
  // bytes that the capture has. `l3` must contain ip.header_bytes.
  size_t Restore(uint16_t ether_type, const IpLayer& ip, std::span<const uint8_t> l3,
                 size_t missing);
  void DecodePacket(const wire::RocePacket& packet, size_t kept, DecodedFrame* decoded);
  // `there` is the number of payload bytes in the capture.
  void DecodeMad(const wire::RocePacket& packet, size_t there, DecodedFrame* decoded);

  Options options_;
  RpcConnections rpc_;
  std::vector<uint8_t> restored_;
};

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_DECODER_H_
