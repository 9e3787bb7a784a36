// The CM exchange in words.
#ifndef POLLUX_TOOLS_FILE_SERVICE_CM_TRACE_H_
#define POLLUX_TOOLS_FILE_SERVICE_CM_TRACE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace pollux::tools {

// One MAD in one line, and a second one for the private data that RFC 8797 defines when it bears
// any; each ends with a newline. "  -> REQ ..." when outgoing, "  <- REP ..." when not. Says so
// when the bytes are no CM MAD.
std::string DescribeMad(bool outgoing, absl::Span<const uint8_t> mad);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_CM_TRACE_H_
