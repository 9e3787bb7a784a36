#include "stack/wire/ethernet.h"

#include <algorithm>

#include "stack/base/byte_order.h"

namespace pollux::wire {
namespace {

MacAddress LoadMac(const uint8_t* p) {
  MacAddress mac;
  std::copy_n(p, mac.size(), mac.begin());
  return mac;
}

}  // namespace

std::optional<EthernetHeader> ParseEthernet(const uint8_t* p, size_t length) {
  if (length < kEthernetBytes) return std::nullopt;
  EthernetHeader header;
  header.destination = LoadMac(p + ethernet::kDestination);
  header.source = LoadMac(p + ethernet::kSource);
  header.ether_type = LoadBe16(p + ethernet::kType);
  if (header.ether_type != kEtherTypeVlan) return header;
  if (length < kEthernetBytes + kVlanTagBytes) return std::nullopt;
  header.vlan_tci = LoadBe16(p + ethernet::kVlanTci);
  header.ether_type = LoadBe16(p + ethernet::kVlanInnerType);
  return header;
}

size_t EmitEthernet(const EthernetHeader& header, uint8_t* p) {
  std::copy(header.destination.begin(), header.destination.end(), p + ethernet::kDestination);
  std::copy(header.source.begin(), header.source.end(), p + ethernet::kSource);
  if (!header.vlan_tci) {
    StoreBe16(p + ethernet::kType, header.ether_type);
    return kEthernetBytes;
  }
  StoreBe16(p + ethernet::kType, kEtherTypeVlan);
  StoreBe16(p + ethernet::kVlanTci, *header.vlan_tci);
  StoreBe16(p + ethernet::kVlanInnerType, header.ether_type);
  return kEthernetBytes + kVlanTagBytes;
}

}  // namespace pollux::wire
