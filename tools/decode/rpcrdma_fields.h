// RPC-over-RDMA transport headers as named fields.
#ifndef POLLUX_TOOLS_DECODE_RPCRDMA_FIELDS_H_
#define POLLUX_TOOLS_DECODE_RPCRDMA_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace pollux::decode {

struct RpcHeaderText {
  nlohmann::ordered_json fields;  // as much of the header as can be decoded
  std::string summary;            // "RDMA_MSG XID 0x00000001, credits 32, ..."
  std::string problem;            // empty if the header is valid
};

// Decodes the header at the start of `message`. `continues`: the message continues in other packets
// or beyond the captured bytes, so an incomplete header is not a problem.
RpcHeaderText DecodeRpcHeader(std::span<const uint8_t> message, bool continues);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_RPCRDMA_FIELDS_H_
