#include "cm/gsi/shard.h"

#include <numeric>
#include <optional>

#include "cm/wire/mad.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {
namespace {

// Of every message but REQ, SIDR_REQ and SIDR_REP: behind its sender's ID.
constexpr size_t kReceiversId = kMadHeaderBytes + 4;
constexpr size_t kReqQpn = kMadHeaderBytes + 32;
constexpr size_t kSidrRequestId = kMadHeaderBytes;

// Whatever the order of bytes in which a host counts its numbers up.
uint32_t ByteSum(std::span<const uint8_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint32_t{0});
}

}  // namespace

uint32_t Shard::HomeOf(const Gid& client) const { return ByteSum(client.raw) % count; }

uint32_t ReceiversId(const MadHeader& header, std::span<const uint8_t> mad) {
  return LoadBe32(&mad[header.attribute == Attribute::kSidrRep ? kSidrRequestId : kReceiversId]);
}

uint32_t GsiOwner(std::span<const uint8_t> mad, const Gid& from, uint32_t workers) {
  const std::optional<MadHeader> header = ParseMadHeader(mad);
  if (!header || header->management_class != kMadClassCm) return 0;
  switch (header->attribute) {
    case Attribute::kReq:
      return (ByteSum(from.raw) + LoadBe24(&mad[kReqQpn])) % workers;
    case Attribute::kSidrReq:
      return (ByteSum(from.raw) + ByteSum(mad.subspan(kSidrRequestId, 4))) % workers;
    default:
      return Shard::IndexOf(ReceiversId(*header, mad)) % workers;
  }
}

}  // namespace pollux::cm
