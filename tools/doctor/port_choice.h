// The port that is asked about, and what kind it is.
#ifndef POLLUX_TOOLS_DOCTOR_PORT_CHOICE_H_
#define POLLUX_TOOLS_DOCTOR_PORT_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"

namespace pollux::tools {

enum class PortKind { kNone, kNetdev, kAfPacket, kAfXdp, kTap, kMemif, kPci };

struct PortChoice {
  PortKind kind = PortKind::kNone;
  std::string interface;    // of kNetdev, kAfPacket and kAfXdp
  std::string pci_address;  // of kPci, with its domain
};

// As --netdev and --port have it; both empty: no port. InvalidArgument for both at once, a kind
// that Pollux does not open, and a driver without the interface it needs.
absl::StatusOr<PortChoice> ChoosePort(const std::string& netdev, const std::string& devargs);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_PORT_CHOICE_H_
