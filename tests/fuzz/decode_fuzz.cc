// Any bytes as a captured frame: decoded twice by one decoder, so that a CM exchange found in it is
// known the second time, and printed both ways.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tools/decode/decoder.h"
#include "tools/decode/text.h"

namespace {

void DecodeWith(pollux::decode::Decoder* decoder, const uint8_t* data, size_t size) {
  const pollux::decode::DecodedFrame frame = decoder->Decode({data, size}, size);
  if (frame.summary.empty()) std::abort();
  static_cast<void>(pollux::decode::ToLine({}, frame));
  static_cast<void>(pollux::decode::ToDetails(frame));
  if (!nlohmann::json::accept(pollux::decode::ToJsonLine({}, frame))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pollux::decode::Decoder careful({});
  pollux::decode::Decoder eager({.rpcrdma = true});
  for (int i = 0; i < 2; ++i) {
    DecodeWith(&careful, data, size);
    DecodeWith(&eager, data, size);
  }
  return 0;
}
