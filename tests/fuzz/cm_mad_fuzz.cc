// Any bytes as a CM MAD. Parsing keeps every bit, so what parses must emit to the bytes it came
// from.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <variant>

#include "cm/wire/cma_header.h"
#include "cm/wire/mad.h"

namespace {

void ParseCmaHeaderOf(const pollux::cm::Mad& mad) {
  if (const auto* req = std::get_if<pollux::cm::Req>(&mad.message)) {
    static_cast<void>(pollux::cm::CmaHeader::Parse(req->private_data));
  } else if (const auto* sidr = std::get_if<pollux::cm::SidrReq>(&mad.message)) {
    static_cast<void>(pollux::cm::CmaHeader::Parse(sidr->private_data));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  static_cast<void>(pollux::cm::ParseMadHeader(bytes));
  static_cast<void>(pollux::cm::CmaHeader::Parse(bytes));
  const auto mad = pollux::cm::ParseMad(bytes);
  if (!mad) return 0;
  ParseCmaHeaderOf(*mad);
  pollux::cm::MadBuffer again;
  pollux::cm::EmitMad(*mad, again);
  if (size != again.size() || std::memcmp(again.data(), data, size) != 0) std::abort();
  return 0;
}
