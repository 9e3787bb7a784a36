// The blocks of a pcapng file, in the machine's byte order, which readers detect from the first
// block. Source: IETF draft-ietf-opsawg-pcapng.
#ifndef POLLUX_STACK_IO_CAPTURE_PCAPNG_H_
#define POLLUX_STACK_IO_CAPTURE_PCAPNG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/types.h"

namespace pollux::io::pcapng {

enum class Direction : uint8_t { kInbound = 1, kOutbound = 2 };  // as in epb_flags

inline constexpr uint32_t kSnapLength = 65'535;  // the most bytes kept of a frame
// The bytes of a frame's block in addition to the frame: fields, options and padding.
inline constexpr size_t kPacketOverhead = 32 + 3 + 12;

// Each function appends one block to `out`.

void AppendSection(const std::string& application, std::vector<uint8_t>* out);

// An Ethernet interface with times in nanoseconds. The first interface of a file is number 0.
void AppendInterface(const std::string& name, const MacAddress& mac, std::vector<uint8_t>* out);

struct Packet {
  uint32_t interface = 0;
  uint64_t time_ns = 0;  // since 1970
  Direction direction = Direction::kInbound;
  const uint8_t* bytes = nullptr;
  uint32_t captured = 0;  // bytes at `bytes`
  uint32_t length = 0;    // bytes on the wire
};
void AppendPacket(const Packet& packet, std::vector<uint8_t>* out);

// The frame counts of an interface, written at the end.
struct Statistics {
  uint32_t interface = 0;
  uint64_t time_ns = 0;
  uint64_t seen = 0;
  uint64_t dropped = 0;  // seen, but not in the file
};
void AppendStatistics(const Statistics& statistics, std::vector<uint8_t>* out);

}  // namespace pollux::io::pcapng

#endif  // POLLUX_STACK_IO_CAPTURE_PCAPNG_H_
