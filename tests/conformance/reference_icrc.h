// A second implementation of the ICRC, independent of stack/wire: by zlib, over a masked copy of
// the whole packet, with its own walk through the headers. RoCEv1 too.
#ifndef POLLUX_TESTS_CONFORMANCE_REFERENCE_ICRC_H_
#define POLLUX_TESTS_CONFORMANCE_REFERENCE_ICRC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace pollux::conformance {

// What the last four bytes of the packet in this Ethernet frame ought to be, in wire order.
// Nothing when the frame is not RoCE or too short. Trusts the length fields no further than the
// frame reaches.
std::optional<std::array<uint8_t, 4>> ReferenceIcrc(std::span<const uint8_t> frame);

// Whether the packet ends with it. False for what is not RoCE.
bool ReferenceIcrcIsValid(std::span<const uint8_t> frame);

}  // namespace pollux::conformance

#endif  // POLLUX_TESTS_CONFORMANCE_REFERENCE_ICRC_H_
