#include "stack/wire/neighbour_discovery.h"

#include <algorithm>

#include "stack/base/byte_order.h"
#include "stack/wire/icmpv6.h"

namespace pollux::wire {
namespace {

constexpr uint8_t kSourceLinkAddress = 1;
constexpr uint8_t kTargetLinkAddress = 2;
constexpr size_t kOptionUnit = 8;
constexpr size_t kMacInOption = 2;
constexpr uint32_t kRouter = 0x80000000;
constexpr uint32_t kSolicited = 0x40000000;
constexpr uint32_t kOverride = 0x20000000;

// False when an option runs past the end or has no length, which voids the message.
bool FindLinkAddress(const uint8_t* p, size_t length, uint8_t wanted,
                     std::optional<MacAddress>* mac) {
  while (length > 0) {
    if (length < kOptionUnit) return false;
    const size_t bytes = p[1] * kOptionUnit;
    if (bytes == 0 || bytes > length) return false;
    if (p[0] == wanted && bytes == kLinkAddressOptionBytes) {
      mac->emplace();
      std::copy_n(p + kMacInOption, (*mac)->size(), (*mac)->begin());
    }
    p += bytes;
    length -= bytes;
  }
  return true;
}

bool HasShape(const uint8_t* p, size_t length, uint8_t type, Gid* target) {
  if (length < kNeighbourMessageBytes || p[icmpv6::kType] != type || p[icmpv6::kCode] != 0) {
    return false;
  }
  std::copy_n(p + nd::kTarget, target->raw.size(), target->raw.begin());
  return !target->IsMulticast();
}

void Emit(uint8_t type, uint32_t flags, const Gid& target, uint8_t option,
          const std::optional<MacAddress>& mac, const uint8_t* l3, uint8_t* p) {
  StoreBe32(p + nd::kFlags, flags);
  std::copy(target.raw.begin(), target.raw.end(), p + nd::kTarget);
  size_t length = kNeighbourMessageBytes;
  if (mac) {
    p[length] = option;
    p[length + 1] = kLinkAddressOptionBytes / kOptionUnit;
    std::copy(mac->begin(), mac->end(), p + length + kMacInOption);
    length += kLinkAddressOptionBytes;
  }
  CloseIcmpv6(type, l3, p, length);
}

}  // namespace

std::optional<NeighbourSolicitation> ParseNeighbourSolicitation(const uint8_t* p, size_t length) {
  NeighbourSolicitation message;
  if (!HasShape(p, length, kIcmpv6NeighbourSolicitation, &message.target) ||
      !FindLinkAddress(p + nd::kOptions, length - nd::kOptions, kSourceLinkAddress,
                       &message.source_mac)) {
    return std::nullopt;
  }
  return message;
}

std::optional<NeighbourAdvertisement> ParseNeighbourAdvertisement(const uint8_t* p, size_t length) {
  NeighbourAdvertisement message;
  if (!HasShape(p, length, kIcmpv6NeighbourAdvertisement, &message.target) ||
      !FindLinkAddress(p + nd::kOptions, length - nd::kOptions, kTargetLinkAddress,
                       &message.target_mac)) {
    return std::nullopt;
  }
  const uint32_t flags = LoadBe32(p + nd::kFlags);
  message.router = (flags & kRouter) != 0;
  message.solicited = (flags & kSolicited) != 0;
  message.overrides = (flags & kOverride) != 0;
  return message;
}

size_t SizeOf(const NeighbourSolicitation& message) {
  return kNeighbourMessageBytes + (message.source_mac ? kLinkAddressOptionBytes : 0);
}
size_t SizeOf(const NeighbourAdvertisement& message) {
  return kNeighbourMessageBytes + (message.target_mac ? kLinkAddressOptionBytes : 0);
}

void EmitNeighbour(const NeighbourSolicitation& message, const uint8_t* l3, uint8_t* p) {
  Emit(kIcmpv6NeighbourSolicitation, 0, message.target, kSourceLinkAddress, message.source_mac, l3,
       p);
}

void EmitNeighbour(const NeighbourAdvertisement& message, const uint8_t* l3, uint8_t* p) {
  const uint32_t flags = (message.router ? kRouter : 0) | (message.solicited ? kSolicited : 0) |
                         (message.overrides ? kOverride : 0);
  Emit(kIcmpv6NeighbourAdvertisement, flags, message.target, kTargetLinkAddress, message.target_mac,
       l3, p);
}

}  // namespace pollux::wire
