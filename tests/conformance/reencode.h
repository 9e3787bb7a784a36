// Builds a packet anew from what was decoded of it, so that any field lost or misread shows.
#ifndef POLLUX_TESTS_CONFORMANCE_REENCODE_H_
#define POLLUX_TESTS_CONFORMANCE_REENCODE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stack/wire/roce_packet.h"

namespace pollux::conformance {

// The frame emitted from the decoded fields of `packet` (which lies in `frame`): Ethernet, IP with
// its checksum, UDP with its checksum where there was one, BTH, extended headers, payload, zero
// pad, ICRC, and the Ethernet padding as it was. Empty when a header does not decode.
std::vector<uint8_t> ReencodeFrame(std::span<const uint8_t> frame, const wire::RocePacket& packet);

// Empty when equal; else where the first difference stands, and in which header.
std::string DescribeDifference(std::span<const uint8_t> frame, std::span<const uint8_t> reencoded,
                               const wire::RocePacket& packet);

}  // namespace pollux::conformance

#endif  // POLLUX_TESTS_CONFORMANCE_REENCODE_H_
