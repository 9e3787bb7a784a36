// The CM exchange as text.
#ifndef POLLUX_TOOLS_FILE_SERVICE_CM_TRACE_H_
#define POLLUX_TOOLS_FILE_SERVICE_CM_TRACE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace pollux::tools {

// Describes one MAD in one line, and private data of RFC 8797 in a second one; each ends with a
// newline. "  -> REQ ..." if outgoing, otherwise "  <- REP ...". States if the bytes are not a CM
// MAD.
std::string DescribeMad(bool outgoing, absl::Span<const uint8_t> mad);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_CM_TRACE_H_
