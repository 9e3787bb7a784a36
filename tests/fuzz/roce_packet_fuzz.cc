// Any bytes as a frame from the wire: the edge parser of RoCEv2, its ICRC check, and the parsers of
// what is not RoCEv2.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmp.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"

namespace {

using pollux::wire::ParseResult;
using pollux::wire::RocePacket;

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadExtHeaders(const RocePacket& packet) {
  using namespace pollux::wire;
  const auto has = [&](HeaderBits bit) { return (packet.info->headers & bit) != 0; };
  volatile uint64_t sink = 0;
  if (has(kHasFeth)) sink = packet.feth().placement;
  if (has(kHasReth)) sink = packet.reth().address;
  if (has(kHasAeth)) sink = packet.aeth().msn;
  if (has(kHasDeth)) sink = packet.deth().qkey;
  if (has(kHasAtomicEth)) sink = packet.atomic_eth().address;
  if (has(kHasAtomicAckEth)) sink = packet.atomic_ack();
  if (has(kHasIeth)) sink = packet.ieth();
  if (has(kHasImmediate)) sink = packet.immediate_be();
  static_cast<void>(sink);
}

// What a view promises to everyone who uses its offsets without looking at the frame again.
void CheckView(const RocePacket& packet, const uint8_t* data, size_t size) {
  Require(packet.frame == data);
  Require(packet.info != nullptr);
  Require(packet.l3_offset < packet.bth_offset);
  Require(packet.ext_offset == packet.bth_offset + pollux::wire::kBthBytes);
  Require(packet.ext_offset <= packet.payload_offset);
  Require(packet.payload_offset + packet.payload_length + packet.bth.pad == packet.icrc_offset);
  Require(packet.icrc_offset + pollux::wire::kIcrcBytes <= size);
  static_cast<void>(packet.source());
  static_cast<void>(packet.destination());
  ReadExtHeaders(packet);
  static_cast<void>(pollux::wire::IcrcIsValid(packet));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RocePacket packet;
  if (pollux::wire::ParseRocePacket(data, size, &packet) == ParseResult::kOk) {
    CheckView(packet, data, size);
  }
  static_cast<void>(pollux::wire::ParseEthernet(data, size));
  static_cast<void>(pollux::wire::ParseArp(data, size));
  static_cast<void>(pollux::wire::ParseIpv4(data, size));
  static_cast<void>(pollux::wire::ParseIcmpEcho(data, size));
  return 0;
}
