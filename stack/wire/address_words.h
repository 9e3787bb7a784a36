// The addresses of a packet in a few words, by which the next one with the same is recognised.
#ifndef POLLUX_STACK_WIRE_ADDRESS_WORDS_H_
#define POLLUX_STACK_WIRE_ADDRESS_WORDS_H_

#include <array>
#include <cstdint>

#include "stack/base/byte_order.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"

namespace pollux::wire {

// The Ethernet header and both IP addresses of packets over IPv4 without a tag, which is nearly
// every packet. As it is made, those of none.
class AddressWords {
 public:
  AddressWords() = default;
  // Those of none when the packet came over IPv6 or has a tag.
  explicit AddressWords(const RocePacket& packet) {
    if (packet.ip_version == 4 && packet.l3_offset == kEthernetBytes) words_ = Load(packet.frame);
  }
  // Any packet may be asked about: the EtherType is among the words, and says what stands behind
  // it.
  bool AreOf(const RocePacket& packet) const { return words_ == Load(packet.frame); }

 private:
  using Words = std::array<uint64_t, 3>;
  // The first fourteen bytes in two words that overlap.
  static_assert(kEthernetBytes == 14);
  static Words Load(const uint8_t* frame) {
    return {LoadBe64(frame), LoadBe64(frame + kEthernetBytes - sizeof(uint64_t)),
            LoadBe64(frame + kEthernetBytes + ipv4::kSource)};
  }

  Words words_{};
};

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ADDRESS_WORDS_H_
