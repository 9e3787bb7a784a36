#include "stack/wire/ipv6.h"

#include <algorithm>

#include "stack/base/byte_order.h"

namespace pollux::wire {
namespace {

constexpr int kVersionShift = 28;
constexpr int kClassShift = 20;
constexpr uint32_t kFlowMask = 0xFFFFF;

}  // namespace

std::optional<Ipv6Header> ParseIpv6(const uint8_t* p, size_t length) {
  if (length < kIpv6Bytes) return std::nullopt;
  const uint32_t first_word = LoadBe32(p + ipv6::kVersionClassFlow);
  if (first_word >> kVersionShift != 6) return std::nullopt;
  Ipv6Header header;
  header.payload_length = LoadBe16(p + ipv6::kPayloadLength);
  if (header.payload_length > length - kIpv6Bytes) return std::nullopt;
  header.traffic_class = static_cast<uint8_t>(first_word >> kClassShift);
  header.flow_label = first_word & kFlowMask;
  header.next_header = p[ipv6::kNextHeader];
  header.hop_limit = p[ipv6::kHopLimit];
  std::copy_n(p + ipv6::kSource, header.source.raw.size(), header.source.raw.begin());
  std::copy_n(p + ipv6::kDestination, header.destination.raw.size(),
              header.destination.raw.begin());
  return header;
}

void EmitIpv6(const Ipv6Header& header, uint8_t* p) {
  StoreBe32(p + ipv6::kVersionClassFlow, 6u << kVersionShift |
                                             uint32_t{header.traffic_class} << kClassShift |
                                             (header.flow_label & kFlowMask));
  StoreBe16(p + ipv6::kPayloadLength, header.payload_length);
  p[ipv6::kNextHeader] = header.next_header;
  p[ipv6::kHopLimit] = header.hop_limit;
  std::copy(header.source.raw.begin(), header.source.raw.end(), p + ipv6::kSource);
  std::copy(header.destination.raw.begin(), header.destination.raw.end(), p + ipv6::kDestination);
}

}  // namespace pollux::wire
