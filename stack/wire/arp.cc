#include "stack/wire/arp.h"

#include <algorithm>

#include "stack/base/byte_order.h"
#include "stack/wire/ethernet.h"

namespace pollux::wire {
namespace {

constexpr uint16_t kHardwareEthernet = 1;
constexpr uint8_t kMacBytes = 6;
constexpr uint8_t kIpv4AddressBytes = 4;
static_assert(sizeof(MacAddress) == kMacBytes);

}  // namespace

std::optional<ArpPacket> ParseArp(const uint8_t* p, size_t length) {
  if (length < kArpBytes || LoadBe16(p + arp::kHardwareType) != kHardwareEthernet ||
      LoadBe16(p + arp::kProtocolType) != kEtherTypeIpv4 || p[arp::kHardwareBytes] != kMacBytes ||
      p[arp::kProtocolBytes] != kIpv4AddressBytes) {
    return std::nullopt;
  }
  ArpPacket packet;
  packet.operation = LoadBe16(p + arp::kOperation);
  std::copy_n(p + arp::kSenderMac, kMacBytes, packet.sender_mac.begin());
  packet.sender_address = LoadBe32(p + arp::kSenderAddress);
  std::copy_n(p + arp::kTargetMac, kMacBytes, packet.target_mac.begin());
  packet.target_address = LoadBe32(p + arp::kTargetAddress);
  return packet;
}

void EmitArp(const ArpPacket& packet, uint8_t* p) {
  StoreBe16(p + arp::kHardwareType, kHardwareEthernet);
  StoreBe16(p + arp::kProtocolType, kEtherTypeIpv4);
  p[arp::kHardwareBytes] = kMacBytes;
  p[arp::kProtocolBytes] = kIpv4AddressBytes;
  StoreBe16(p + arp::kOperation, packet.operation);
  std::copy(packet.sender_mac.begin(), packet.sender_mac.end(), p + arp::kSenderMac);
  StoreBe32(p + arp::kSenderAddress, packet.sender_address);
  std::copy(packet.target_mac.begin(), packet.target_mac.end(), p + arp::kTargetMac);
  StoreBe32(p + arp::kTargetAddress, packet.target_address);
}

}  // namespace pollux::wire
