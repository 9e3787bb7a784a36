#include "tools/port_options.h"

#include <arpa/inet.h>

#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "stack/net/impairment.h"

namespace pollux::tools {
namespace {

absl::Status ParseAddress(const std::string& text, PortOptions* port) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  absl::StatusOr<uint32_t> address = ParseIpv4(parts.first);
  if (!address.ok()) return address.status();
  uint32_t length = 0;
  if (!absl::SimpleAtoi(parts.second, &length) || length > 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not ADDRESS/LENGTH, as in 192.0.2.1/24"));
  }
  port->device.address = *address;
  port->device.prefix_length = static_cast<uint8_t>(length);
  port->has_address = true;
  return absl::OkStatus();
}

absl::Status ParseMac(const std::string& text, PortOptions* port) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  MacAddress mac{};
  bool good = parts.size() == mac.size();
  for (size_t i = 0; good && i < mac.size(); ++i) {
    uint32_t byte = 0;
    good = parts[i].size() == 2 && absl::SimpleHexAtoi(parts[i], &byte) && byte <= 0xFF;
    mac[i] = static_cast<uint8_t>(byte);
  }
  if (!good || (mac[0] & 1) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a unicast MAC address, as in 02:00:00:00:00:01"));
  }
  port->device.mac = mac;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint32_t> ParseIpv4(const std::string& text) {
  in_addr address;
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not an IPv4 address, as in 192.0.2.1"));
  }
  return ntohl(address.s_addr);
}

std::string FormatIpv4(uint32_t address) {
  return absl::StrFormat("%u.%u.%u.%u", address >> 24, address >> 16 & 0xFF, address >> 8 & 0xFF,
                         address & 0xFF);
}

void DeclareWireOptions(Options& options, PortOptions* port) {
  options.Parsed("impair", "LIST",
                 "make the wire bad, both ways: loss=P,dup=P,reorder=P,\n"
                 "corrupt=P,seed=N (probabilities a frame)",
                 [port](const std::string& text) {
                   absl::StatusOr<net::ImpairmentOptions> parsed =
                       net::ImpairmentOptions::Parse(text);
                   if (parsed.ok()) port->device.impairment = *parsed;
                   return parsed.status();
                 });
  options.Text("capture", "FILE",
               "write every frame on the wire into a pcapng file:\n"
               "what --impair loses on its way out is not in it",
               &port->capture);
  options.Parsed("memory", "MIB", "memory for packets and rings (512)",
                 [port](const std::string& text) {
                   if (!absl::SimpleAtoi(text, &port->eal.memory_mib) ||
                       port->eal.memory_mib < 64 || port->eal.memory_mib > 1048576) {
                     return absl::InvalidArgumentError(
                         absl::StrCat("'", text, "' is not a number from 64 to 1048576"));
                   }
                   return absl::OkStatus();
                 });
}

void DeclarePortOptions(Options& options, PortOptions* port) {
  options.Text("port", "DEVARGS",
               "the port, as DPDK names it: net_tap0,iface=plx0\n"
               "net_af_packet0,iface=veth1  net_memif0,role=server,socket=PATH\n"
               "or a PCI address (untested)",
               &port->device.port);
  options.Parsed("address", "ADDR/LEN", "IPv4 address of the port, as in 192.0.2.1/24",
                 [port](const std::string& text) { return ParseAddress(text, port); });
  options.Parsed("gateway", "ADDR", "next hop for what is not on the link",
                 [port](const std::string& text) {
                   absl::StatusOr<uint32_t> gateway = ParseIpv4(text);
                   if (gateway.ok()) port->device.gateway = *gateway;
                   return gateway.status();
                 });
  options.Parsed("mac", "MAC", "instead of the port's own",
                 [port](const std::string& text) { return ParseMac(text, port); });
  options.Number("core", "CPU that the worker polls on (any)", 0, 1023, &port->core);
  options.Number("yield-after",
                 "idle turns after which the worker gives its CPU\n"
                 "away; 0: never, for a CPU of its own (256)",
                 0, 1u << 30, &port->yield_after);
  DeclareWireOptions(options, port);
}

absl::StatusOr<std::shared_ptr<net::CaptureFile>> OpenCapture(const PortOptions& port) {
  if (port.capture.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<net::CaptureFile>> file =
      net::CaptureFile::Open(port.capture, engine::DeviceEpochNs());
  if (!file.ok()) return file.status();
  return std::shared_ptr<net::CaptureFile>(file->release(), [](net::CaptureFile* opened) {
    const absl::Status status = opened->Close();
    if (!status.ok()) {
      std::fprintf(stderr, "pollux: %s\n", std::string(status.message()).c_str());
    }
    delete opened;
  });
}

absl::Status CheckPortOptions(const PortOptions& port) {
  if (port.device.port.empty()) {
    return absl::InvalidArgumentError(
        "which port? give --port DEVARGS, as in --port net_tap0,iface=plx0");
  }
  if (!port.has_address) {
    return absl::InvalidArgumentError(
        "which address? give --address ADDR/LEN, as in --address 192.0.2.1/24");
  }
  return absl::OkStatus();
}

}  // namespace pollux::tools
