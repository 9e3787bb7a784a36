// The Ethernet and IP addresses of a packet in three 64-bit words, to recognise the next packet
// with the same addresses.
#ifndef POLLUX_STACK_WIRE_ADDRESS_WORDS_H_
#define POLLUX_STACK_WIRE_ADDRESS_WORDS_H_

#include <array>
#include <cstdint>

#include "stack/base/byte_order.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"

namespace pollux::wire {

// Only packets over IPv4 without a VLAN tag, which are nearly all packets, have such words. A
// default-constructed object matches no packet.
class AddressWords {
 public:
  AddressWords() = default;
  // Matches no packet if `packet` is over IPv6 or has a tag.
  explicit AddressWords(const RocePacket& packet) {
    if (packet.ip_version == 4 && packet.l3_offset == kEthernetBytes) words_ = Load(packet.frame);
  }
  // Can be called for any packet: the words include the EtherType, so packets of other kinds do not
  // match.
  bool AreOf(const RocePacket& packet) const { return words_ == Load(packet.frame); }

 private:
  using Words = std::array<uint64_t, 3>;
  // Loads the first fourteen bytes as two overlapping words.
  static_assert(kEthernetBytes == 14);
  static Words Load(const uint8_t* frame) {
    return {LoadBe64(frame), LoadBe64(frame + kEthernetBytes - sizeof(uint64_t)),
            LoadBe64(frame + kEthernetBytes + ipv4::kSource)};
  }

  Words words_{};
};

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ADDRESS_WORDS_H_
