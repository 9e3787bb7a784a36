// Ethernet frames in words: RoCEv2 and RoCEv1 packets, the CM messages and the RPC-over-RDMA
// headers in them.
#ifndef POLLUX_TOOLS_DECODE_DECODER_H_
#define POLLUX_TOOLS_DECODE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "stack/wire/ethernet.h"
#include "stack/wire/roce_packet.h"
#include "tools/decode/rpc_connections.h"

namespace pollux::decode {

struct DecodedFrame {
  nlohmann::ordered_json fields;  // an object; one object in it a header, in wire order
  std::string source;             // addresses as a line shows them: IP, else MAC
  std::string destination;
  std::string summary;  // what it is, for one line
  std::string problem;  // why the frame fails; empty when it passes or is not RoCE
  bool roce = false;    // of either version, well-formed or not
};

// Decodes the frames of one capture in their order: it remembers which queue pairs carry
// RPC-over-RDMA. Any bytes at all are decoded as far as they go.
class Decoder {
 public:
  struct Options {
    // Every RC Send begins with an RPC-over-RDMA header: for captures that begin too late to have
    // the CM exchange.
    bool rpcrdma = false;
  };
  explicit Decoder(const Options& options) : options_(options) {}

  // `original_bytes` exceeds frame.size() when the capture cut the frame.
  DecodedFrame Decode(std::span<const uint8_t> frame, size_t original_bytes);

 private:
  void DecodePacket(const wire::RocePacket& packet, DecodedFrame* decoded);
  void DecodeMad(const wire::RocePacket& packet, DecodedFrame* decoded);
  void DecodeRoceV1(std::span<const uint8_t> frame, const wire::EthernetHeader& ethernet,
                    DecodedFrame* decoded);

  Options options_;
  RpcConnections rpc_;
};

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_DECODER_H_
