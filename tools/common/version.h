// Which Pollux this is.
#ifndef POLLUX_TOOLS_COMMON_VERSION_H_
#define POLLUX_TOOLS_COMMON_VERSION_H_

namespace pollux::tools {

// As the topmost heading of CHANGELOG.md has it.
inline constexpr char kVersion[] = "0.1 (not yet released)";

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_VERSION_H_
