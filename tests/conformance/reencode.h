// Rebuilds a packet from its decoded fields, so that any lost or misread field is noticed.
#ifndef POLLUX_TESTS_CONFORMANCE_REENCODE_H_
#define POLLUX_TESTS_CONFORMANCE_REENCODE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stack/wire/roce_packet.h"

namespace pollux::conformance {

// Returns the frame built from the decoded fields of `packet`, which is part of `frame`: Ethernet,
// IP with its checksum, UDP with its checksum if there was one, BTH, extended headers, payload,
// zero pad, ICRC, and the Ethernet padding as it was. Returns nothing if a header cannot be
// decoded.
std::vector<uint8_t> ReencodeFrame(std::span<const uint8_t> frame, const wire::RocePacket& packet);

// Describes the position and header of the first difference; empty if the frames are equal.
std::string DescribeDifference(std::span<const uint8_t> frame, std::span<const uint8_t> reencoded,
                               const wire::RocePacket& packet);

}  // namespace pollux::conformance

#endif  // POLLUX_TESTS_CONFORMANCE_REENCODE_H_
