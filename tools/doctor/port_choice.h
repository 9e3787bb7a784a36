// The port to examine, and its kind.
#ifndef POLLUX_TOOLS_DOCTOR_PORT_CHOICE_H_
#define POLLUX_TOOLS_DOCTOR_PORT_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"

namespace pollux::tools {

enum class PortKind { kNone, kNetdev, kAfPacket, kAfXdp, kTap, kMemif, kPci };

struct PortChoice {
  PortKind kind = PortKind::kNone;
  std::string interface;    // for kNetdev, kAfPacket and kAfXdp
  std::string pci_address;  // for kPci, with its domain
};

// Takes the values of --netdev and --port; if both are empty, there is no port. InvalidArgument if
// both are given, for a kind of port that Pollux does not support, and for a driver without the
// interface that it needs.
absl::StatusOr<PortChoice> ChoosePort(const std::string& netdev, const std::string& devargs);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_PORT_CHOICE_H_
