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

// The fastest of them for each length, as measured (tools/dev bench --icrc).
struct IcrcChoice {
  size_t narrow_bytes;  // up to as many by CrcKernel::kFold128
  CrcKernel wide;       // more
  // For so many bytes, a multiple of four.
  constexpr CrcKernel For(size_t bytes) const {
    return bytes <= narrow_bytes ? CrcKernel::kFold128 : wide;
  }
};
// For a machine that Has() these beside the ones that every machine has.
constexpr IcrcChoice ChooseIcrc(bool has_128, bool has_256, bool has_512) {
  // Up to how many bytes one pass of 128 bits at a time wins over wider vectors, and where there
  // are none over ISA-L behind the headers.
  constexpr size_t kBesideWider = 144, kBesideIsal = 320;
  const bool wider = has_256 || has_512;
  return {.narrow_bytes = !has_128 ? 0
                          : wider  ? kBesideWider
                                   : kBesideIsal,
          .wide = has_512   ? CrcKernel::kFold512
                  : has_256 ? CrcKernel::kFold256
                            : CrcKernel::kIsal};
}

// Which of them Icrc() takes for so many bytes on this machine.
CrcKernel IcrcKernel(size_t bytes);

// That of a packet as it was parsed.
uint32_t ComputeIcrc(const RocePacket& packet);
// Whether the four bytes at packet.icrc_offset hold it.
bool IcrcIsValid(const RocePacket& packet);
// Stores it least significant byte first.
void EmitIcrc(uint32_t icrc, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ICRC_H_
