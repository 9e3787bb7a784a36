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

// The ICRC of `bytes` bytes from the IP header at `l3` to the end of the pad, as a host-order value
// to be stored least significant byte first. `ip_version` is 4 (20-byte header, no options) or 6;
// UDP header and BTH follow it, so that `bytes` is at least what the three take. The Ethernet
// header before `l3` is read, and counts for nothing.
uint32_t Icrc(const uint8_t* l3, uint8_t ip_version, size_t bytes);
// The same by each of the ways there are, to be held against each other.
uint32_t IcrcByTable(const uint8_t* l3, uint8_t ip_version, size_t bytes);
uint32_t IcrcByIsal(const uint8_t* l3, uint8_t ip_version, size_t bytes);
// Carry-less multiplication, 128 bits at a time: for packets of a multiple of four bytes on
// processors that have it (HasPclmul()). Source: Intel, "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction" (2009).
uint32_t IcrcByPclmul(const uint8_t* l3, uint8_t ip_version, size_t bytes);
bool HasPclmul();

// That of a packet as it was parsed.
uint32_t ComputeIcrc(const RocePacket& packet);
// Whether the four bytes at packet.icrc_offset hold it.
bool IcrcIsValid(const RocePacket& packet);
// Stores it least significant byte first.
void EmitIcrc(uint32_t icrc, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ICRC_H_
