// Captured frames in words: RoCEv2 and RoCEv1 packets, the CM messages and the RPC-over-RDMA
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
  nlohmann::ordered_json fields;  // an object; one object in it a header, in wire order
  std::string source;             // addresses as a line shows them: IP, else MAC
  std::string destination;
  std::string summary;  // what it is, for one line
  std::string problem;  // why the frame fails; empty when it passes or is not RoCE
  // "ICRC not checked: behind IPv4 options", over which it is not defined. No failure.
  std::string unchecked;
  // "ICRC not checked: cut to 60 of 1082 bytes": the capture did not keep all of a RoCE packet, or
  // too little to tell what it is. No failure.
  std::string cut;
  bool roce = false;  // of either version, well-formed or not
};

// Decodes the frames of one capture in their order: it remembers which queue pairs carry
// RPC-over-RDMA. Any bytes at all are decoded as far as they go.
class Decoder {
 public:
  struct Options {
    // Every RC Send begins with an RPC-over-RDMA header: for captures that begin too late to have
    // the CM exchange.
    bool rpcrdma = false;
    LinkType link = LinkType::kEthernet;  // what all frames begin with
  };
  explicit Decoder(const Options& options) : options_(options) {}

  // `original_bytes` exceeds frame.size() when the capture cut the frame.
  DecodedFrame Decode(std::span<const uint8_t> frame, size_t original_bytes);

 private:
  // These say whether the whole packet was there, its ICRC included. `missing` is how many bytes
  // the capture did not keep.
  bool DecodeRoceV2(uint16_t ether_type, const IpLayer& ip, std::span<const uint8_t> l3,
                    size_t missing, DecodedFrame* decoded);
  bool DecodeRoceV1(std::span<const uint8_t> l3, size_t missing, DecodedFrame* decoded);
  // Makes restored_: the packet at `l3` as an Ethernet frame, without what stands between its IP
  // header and UDP, and with zeros for what is missing. Returns how many bytes of it were kept;
  // `l3` must hold ip.header_bytes.
  size_t Restore(uint16_t ether_type, const IpLayer& ip, std::span<const uint8_t> l3,
                 size_t missing);
  void DecodePacket(const wire::RocePacket& packet, size_t kept, DecodedFrame* decoded);
  // `there` is how much of the payload was kept.
  void DecodeMad(const wire::RocePacket& packet, size_t there, DecodedFrame* decoded);

  Options options_;
  RpcConnections rpc_;
  std::vector<uint8_t> restored_;
};

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_DECODER_H_
