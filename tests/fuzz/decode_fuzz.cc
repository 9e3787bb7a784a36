// Any bytes as a captured frame: decoded twice by one decoder, so that a CM exchange found in it is
// known the second time, and as one that the capture cut; printed both ways.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>

#include "tools/decode/decoder.h"
#include "tools/decode/text.h"

namespace {

void DecodeWith(pollux::decode::Decoder* decoder, std::span<const uint8_t> data,
                size_t original_bytes) {
  const pollux::decode::DecodedFrame frame = decoder->Decode(data, original_bytes);
  if (frame.summary.empty()) std::abort();
  static_cast<void>(pollux::decode::ToLine({}, frame));
  static_cast<void>(pollux::decode::ToDetails(frame));
  if (!nlohmann::json::accept(pollux::decode::ToJsonLine({}, frame))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pollux::decode::LinkType;
  for (const LinkType link :
       {LinkType::kEthernet, LinkType::kLinuxCooked, LinkType::kLinuxCooked2, LinkType::kIp}) {
    pollux::decode::Decoder careful({.link = link});
    pollux::decode::Decoder eager({.rpcrdma = true, .link = link});
    for (int i = 0; i < 2; ++i) {
      DecodeWith(&careful, {data, size}, size);
      DecodeWith(&eager, {data, size}, size);
    }
    DecodeWith(&eager, {data, size}, size + 1024);  // cut by the capture
  }
  return 0;
}
