// Numbers in hexadecimal with all digits of their width, as in tshark.
#ifndef POLLUX_TOOLS_DECODE_HEX_H_
#define POLLUX_TOOLS_DECODE_HEX_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"

namespace pollux::decode {

inline std::string Hex8(uint32_t value) { return absl::StrFormat("0x%02x", value); }
inline std::string Hex16(uint32_t value) { return absl::StrFormat("0x%04x", value); }
inline std::string Hex24(uint32_t value) { return absl::StrFormat("0x%06x", value); }
inline std::string Hex32(uint32_t value) { return absl::StrFormat("0x%08x", value); }
inline std::string Hex64(uint64_t value) { return absl::StrFormat("0x%016x", value); }

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_HEX_H_
