#include "tools/doctor/port_choice.h"

#include <cctype>
#include <cstdio>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace pollux::tools {
namespace {

// "[dddd:]bb:dd.f" with its domain, in lower case; empty: not a PCI address.
std::string PciAddress(const std::string& text) {
  unsigned domain = 0, bus, device, function;
  int length = 0;
  const bool whole =
      std::sscanf(text.c_str(), "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &length) ==
          4 ||
      (domain = 0, std::sscanf(text.c_str(), "%2x:%2x.%1x%n", &bus, &device, &function, &length)) ==
          3;
  if (!whole || static_cast<size_t>(length) != text.size()) return "";
  return absl::StrFormat("%04x:%02x:%02x.%x", domain, bus, device, function);
}

}  // namespace

absl::StatusOr<PortChoice> ChoosePort(const std::string& netdev, const std::string& devargs) {
  if (!netdev.empty() && !devargs.empty()) {
    return absl::InvalidArgumentError("give either --netdev or --port");
  }
  if (!netdev.empty()) {
    return PortChoice{.kind = PortKind::kNetdev, .interface = netdev, .pci_address = ""};
  }
  if (devargs.empty()) return PortChoice{};
  const std::vector<std::string> parts = absl::StrSplit(devargs, ',');
  PortChoice choice;
  choice.pci_address = PciAddress(parts[0]);
  for (const std::string& part : parts) {
    if (absl::StartsWith(part, "iface=")) choice.interface = part.substr(6);
  }
  if (!choice.pci_address.empty()) {
    choice.kind = PortKind::kPci;
  } else if (absl::StartsWith(parts[0], "net_memif")) {
    choice.kind = PortKind::kMemif;
  } else if (absl::StartsWith(parts[0], "net_tap")) {
    choice.kind = PortKind::kTap;
  } else if (absl::StartsWith(parts[0], "net_af_packet")) {
    choice.kind = PortKind::kAfPacket;
  } else if (absl::StartsWith(parts[0], "net_af_xdp")) {
    choice.kind = PortKind::kAfXdp;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("port \"", devargs,
                     "\": unknown kind of port; give a PCI address such as "
                     "0000:03:00.0, net_af_packet0, net_af_xdp0, net_tap0 or net_memif0"));
  }
  const bool over_interface = choice.kind == PortKind::kAfPacket || choice.kind == PortKind::kAfXdp;
  if (over_interface && choice.interface.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("port \"", devargs, "\" needs an interface: ", parts[0], ",iface=IFACE"));
  }
  return choice;
}

}  // namespace pollux::tools
