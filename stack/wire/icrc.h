// The invariant CRC of RoCEv2: CRC-32 (IEEE 802.3, reflected) over eight bytes of ones, the masked
// IP, UDP and BTH headers, and everything after them. Source: IB specification, annex A17.
#ifndef POLLUX_STACK_WIRE_ICRC_H_
#define POLLUX_STACK_WIRE_ICRC_H_

#include <cstddef>
#include <cstdint>

#include "stack/wire/roce_packet.h"

namespace pollux::wire {

// The running value after the eight bytes of ones that stand for the LRH (complemented form, as
// zlib's crc32 and ISA-L's crc32_gzip_refl chain it).
inline constexpr uint32_t kIcrcStart = 0x2144DF1C;

// Continues a running CRC over `n` bytes.
uint32_t Crc32(uint32_t crc, const uint8_t* data, size_t n);
// Copies `n` bytes from `source` to `destination` (no overlap) and continues the CRC over them, in
// one pass where the machine gains from it.
uint32_t Crc32Copy(uint32_t crc, uint8_t* destination, const uint8_t* source, size_t n);

// The running CRC after the masked headers: `l3` points at the IP header, the UDP header and the
// BTH follow it. `ip_version` is 4 (20-byte header, no options) or 6.
uint32_t IcrcOverHeaders(const uint8_t* l3, uint8_t ip_version);

// The ICRC of a whole packet, headers to pad, as a host-order value to be stored least significant
// byte first.
uint32_t ComputeIcrc(const RocePacket& packet);
// Whether the four bytes at packet.icrc_offset hold it.
bool IcrcIsValid(const RocePacket& packet);
// Stores it least significant byte first.
void EmitIcrc(uint32_t icrc, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ICRC_H_
