// The invariant CRC of RoCEv2: CRC-32 (IEEE 802.3, reflected) over eight bytes of ones, the masked
// IP, UDP and BTH headers, and everything after them. Source: IB specification, annex A17.
#ifndef POLLUX_STACK_WIRE_ICRC_H_
#define POLLUX_STACK_WIRE_ICRC_H_

#include <cstddef>
#include <cstdint>

#include "stack/base/byte_order.h"
#include "stack/wire/crc32.h"
#include "stack/wire/roce_packet.h"

namespace pollux::wire {

// The running value after the eight bytes of ones that replace the LRH, in the complemented form in
// which zlib's crc32 and ISA-L's crc32_gzip_refl chain it.
inline constexpr uint32_t kIcrcStart = 0x2144DF1C;

// Computes the ICRC of `bytes` bytes from the IP header at `l3` to the end of the pad. Returns it
// in host byte order; it is stored least significant byte first. `ip_version` is 4 (20-byte header,
// no options) or 6. UDP header and BTH follow, so `bytes` covers at least these three. May read the
// Ethernet header before `l3`; its contents do not affect the result.
uint32_t Icrc(const uint8_t* l3, uint8_t ip_version, size_t bytes);
// As Icrc(), with a given kernel, for which Has() must be true. The folding kernels take one pass
// if `bytes` is a multiple of four, as it is for every RoCE packet.
uint32_t IcrcBy(CrcKernel kernel, const uint8_t* l3, uint8_t ip_version, size_t bytes);

// The fastest kernel for each length, as measured (tools/dev bench --icrc).
struct IcrcChoice {
  size_t narrow_bytes;  // up to this length CrcKernel::kFold128 is fastest
  CrcKernel wide;       // for longer packets
  // `bytes` is a multiple of four.
  constexpr CrcKernel For(size_t bytes) const {
    return bytes <= narrow_bytes ? CrcKernel::kFold128 : wide;
  }
};
// The choice for a machine on which Has() is true for these kernels, besides kTable and kIsal.
constexpr IcrcChoice ChooseIcrc(bool has_128, bool has_256, bool has_512) {
  // Up to these lengths one pass with 128-bit vectors is faster than with wider vectors or, if
  // there are none, than ISA-L after the headers.
  constexpr size_t kBesideWider = 144, kBesideIsal = 320;
  const bool wider = has_256 || has_512;
  return {.narrow_bytes = !has_128 ? 0
                          : wider  ? kBesideWider
                                   : kBesideIsal,
          .wide = has_512   ? CrcKernel::kFold512
                  : has_256 ? CrcKernel::kFold256
                            : CrcKernel::kIsal};
}

// The kernel that Icrc() uses for this length on this machine.
CrcKernel IcrcKernel(size_t bytes);

// The ICRC of a parsed packet.
uint32_t ComputeIcrc(const RocePacket& packet);
// Whether the four bytes at packet.icrc_offset hold the correct ICRC.
bool IcrcIsValid(const RocePacket& packet);
// Whether the four bytes after the `bytes` bytes at `l3` hold the correct ICRC. As Icrc().
inline bool IcrcIsValid(const uint8_t* l3, uint8_t ip_version, size_t bytes) {
  return Icrc(l3, ip_version, bytes) == __builtin_bswap32(LoadBe32(l3 + bytes));
}
// Stores the ICRC at `p`, least significant byte first.
void EmitIcrc(uint32_t icrc, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_ICRC_H_
