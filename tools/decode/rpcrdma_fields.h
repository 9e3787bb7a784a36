// RPC-over-RDMA transport headers as named fields.
#ifndef POLLUX_TOOLS_DECODE_RPCRDMA_FIELDS_H_
#define POLLUX_TOOLS_DECODE_RPCRDMA_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace pollux::decode {

struct RpcHeaderText {
  nlohmann::ordered_json fields;  // as far as the header decodes
  std::string summary;            // "RDMA_MSG XID 0x00000001, credits 32, ..."
  std::string problem;            // empty when it decodes
};

// The header at the start of `message`. When `continues`, the message goes on in other packets or
// past what a capture kept, and a header that does not end here is no problem.
RpcHeaderText DecodeRpcHeader(std::span<const uint8_t> message, bool continues);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_RPCRDMA_FIELDS_H_
