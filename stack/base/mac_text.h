// Parses MAC addresses that users write.
#ifndef POLLUX_STACK_BASE_MAC_TEXT_H_
#define POLLUX_STACK_BASE_MAC_TEXT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stack/base/types.h"

namespace pollux {

// Parses "02:00:00:00:00:01". Returns InvalidArgument for anything else, and for a multicast
// address.
absl::StatusOr<MacAddress> ParseMac(absl::string_view text);

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_MAC_TEXT_H_
