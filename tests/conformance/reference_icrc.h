// A second implementation of the ICRC, independent of stack/wire: it uses zlib on a masked copy of
// the whole packet and parses the headers itself. It also supports RoCEv1.
#ifndef POLLUX_TESTS_CONFORMANCE_REFERENCE_ICRC_H_
#define POLLUX_TESTS_CONFORMANCE_REFERENCE_ICRC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace pollux::conformance {

// Returns the correct ICRC for the packet in this Ethernet frame, in wire order. Returns nothing if
// the frame is not RoCE or is too short. Does not read beyond the frame, whatever the length fields
// are.
std::optional<std::array<uint8_t, 4>> ReferenceIcrc(std::span<const uint8_t> frame);

// Whether the packet ends with the correct ICRC; false if it is not RoCE.
bool ReferenceIcrcIsValid(std::span<const uint8_t> frame);

}  // namespace pollux::conformance

#endif  // POLLUX_TESTS_CONFORMANCE_REFERENCE_ICRC_H_
