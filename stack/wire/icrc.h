// The invariant CRC of RoCEv2: CRC-32 (IEEE 802.3, reflected) over eight bytes of ones, the masked
// IP, UDP and BTH headers, and everything after them. Source: IB specification, annex A17.
#ifndef POLLUX_STACK_WIRE_ICRC_H_
#define POLLUX_STACK_WIRE_ICRC_H_

#include <cstddef>
#include <cstdint>

#include "stack/wire/crc32.h"
#include "stack/wire/roce_packet.h"

namespace pollux::wire {

// The running value after the eight bytes of ones that stand for the LRH (complemented form, as
// zlib's crc32 and ISA-L's crc32_gzip_refl chain it).
inline constexpr uint32_t kIcrcStart = 0x2144DF1C;

// The ICRC of `bytes` bytes from the IP header at `l3` to the end of the pad, as a host-order value
// to be stored least significant byte first. `ip_version` is 4 (20-byte header, no options) or 6;
// UDP header and BTH follow it, so that `bytes` is at least what the three take. The Ethernet
// header before `l3` is read, and counts for nothing.
uint32_t Icrc(const uint8_t* l3, uint8_t ip_version, size_t bytes);
// The same by one of the ways there are, which Has(). The folding ones do it in one pass when
// `bytes` is a multiple of four, as that of every RoCE packet is.
uint32_t IcrcBy(CrcKernel kernel, const uint8_t* l3, uint8_t ip_version, size_t bytes);

// Which of them Icrc() takes for so many bytes on this machine: the fastest, as measured.
CrcKernel IcrcKernel(size_t bytes);

// That of a packet as it was parsed.
uint32_t ComputeIcrc(const RocePacket& packet);
// Whether the four bytes at packet.icrc_offset hold it.
bool IcrcIsValid(const RocePacket& packet);
// Stores it least significant byte first.
void EmitIcrc(uint32_t icrc, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ICRC_H_
