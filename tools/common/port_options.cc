#include "tools/common/port_options.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/base/address.h"
#include "stack/base/mac_text.h"
#include "stack/io/link/impairment.h"
#include "tools/common/core_list.h"
#include "tools/common/log_format.h"
#include "tools/common/report.h"

namespace pollux::tools {
namespace {

constexpr uint64_t kMinMtu = 352;  // path MTU 256

absl::Status ParseAddress(const std::string& text, PortOptions* port) {
  const absl::StatusOr<InterfaceAddress> address = ParseInterfaceAddress(text);
  if (address.ok()) port->device.addresses.push_back(*address);
  return address.status();
}

absl::Status ParseGateway(const std::string& text, PortOptions* port) {
  const absl::StatusOr<Gid> gateway = pollux::ParseAddress(text);
  if (gateway.ok()) port->device.gateways.push_back(*gateway);
  return gateway.status();
}

absl::Status ParseFilePrefix(const std::string& text, PortOptions* port) {
  constexpr size_t kMaxBytes = 40;
  if (text.empty() || text.size() > kMaxBytes || text[0] == '.' ||
      text.find_first_of("/%") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("'", text,
                                                   "' is not the name of a file of at most ",
                                                   kMaxBytes, " bytes, without % and leading dot"));
  }
  // It becomes a label of metrics.
  if (ReplaceInvalidUtf8(text) != text) {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not valid UTF-8"));
  }
  port->eal.file_prefix = text;
  return absl::OkStatus();
}

absl::Status ParseMac(const std::string& text, PortOptions* port) {
  const absl::StatusOr<MacAddress> mac = pollux::ParseMac(text);
  if (mac.ok()) port->device.mac = *mac;
  return mac.status();
}

absl::Status ParseCores(const std::string& text, PortOptions* port) {
  if (!port->cores.empty()) {
    return absl::InvalidArgumentError(
        "CPUs are given twice; give either --core N or --cores LIST, once");
  }
  absl::StatusOr<std::vector<int>> cores = ParseCoreList(text);
  if (!cores.ok()) return cores.status();
  port->cores = *std::move(cores);
  return absl::OkStatus();
}

absl::Status ParseCore(const std::string& text, PortOptions* port) {
  absl::Status status = ParseCores(text, port);
  if (!status.ok() || port->cores.size() == 1) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not one CPU; --cores takes several"));
}

absl::Status ParseIdle(const std::string& text, PortOptions* port) {
  const absl::StatusOr<engine::Idle> idle = engine::ParseIdle(text);
  if (idle.ok()) port->idle = *idle;
  return idle.status();
}

}  // namespace

void DeclareWireOptions(Options& options, PortOptions* port) {
  options.Parsed("impair", "LIST",
                 "impair both directions: loss=P,dup=P,reorder=P,corrupt=P,\n"
                 "seed=N (probabilities per frame)",
                 [port](const std::string& text) {
                   absl::StatusOr<io::ImpairmentOptions> parsed =
                       io::ImpairmentOptions::Parse(text);
                   if (parsed.ok()) port->device.impairment = *parsed;
                   return parsed.status();
                 });
  options.Text("capture", "FILE",
               "write every frame on the wire into a pcapng file (without\n"
               "outgoing frames that --impair drops). While another process\n"
               "writes FILE, FILE.PID is used",
               &port->capture);
  options.Parsed("memory", "MIB",
                 "memory for packets and rings (128, or 64 plus 16 per core if\nthat is more)",
                 [port](const std::string& text) {
                   if (!absl::SimpleAtoi(text, &port->eal.memory_mib) ||
                       port->eal.memory_mib < 64 || port->eal.memory_mib > 1048576) {
                     return absl::InvalidArgumentError(
                         absl::StrCat("'", text, "' is not a number from 64 to 1048576"));
                   }
                   port->memory_given = true;
                   return absl::OkStatus();
                 });
  options.Parsed("file-prefix", "NAME",
                 "name of this process for `pollux stat` and other clients\n"
                 "of DPDK telemetry (pollux-PID)",
                 [port](const std::string& text) { return ParseFilePrefix(text, port); });
}

void DeclareOwnPortOptions(Options& options, PortOptions* port) {
  options.Text("port", "DEVARGS",
               "the port, as DPDK devargs: net_tap0,iface=plx0\n"
               "net_af_packet0,iface=veth1  net_memif0,role=server,socket=PATH\n"
               "or a PCI address: 0000:03:00.0",
               &port->device.port);
  options.Parsed("address", "ADDR/LEN",
                 port->device.forwards_all
                     ? "IP address of the port, such as 192.0.2.1/24 or\n"
                       "2001:db8::1/64; repeatable. The link-local address that\n"
                       "follows from the MAC is added"
                     : "IP address of the port, such as 192.0.2.1/24,\n"
                       "2001:db8::1/64 or 192.0.2.1/24,vlan=100; repeatable. The\n"
                       "link-local address that follows from the MAC is added",
                 [port](const std::string& text) { return ParseAddress(text, port); });
  options.Parsed(
      "gateway", "ADDR",
      "next hop for destinations outside the port's subnets; once\nfor IPv4 and once for IPv6",
      [port](const std::string& text) { return ParseGateway(text, port); });
  options.Number("mtu",
                 "MTU of the network. Default: the MTU of the port; a PCI NIC\n"
                 "usually has 1500. Path MTU 4096 needs 4192",
                 kMinMtu, UINT16_MAX, &port->mtu);
  options.Parsed("mac", "MAC", "MAC address to use instead of the port's own",
                 [port](const std::string& text) { return ParseMac(text, port); });
  options.Parsed("core", "N", "CPU on which the worker polls (any)",
                 [port](const std::string& text) { return ParseCore(text, port); });
  options.Parsed("idle", "spin|yield|sleep",
                 "what a worker without work does. spin: keeps polling, for\n"
                 "a CPU of its own; yield: lets other threads run; sleep:\n"
                 "uses almost no CPU, but packets wait up to 5 ms (yield)",
                 [port](const std::string& text) { return ParseIdle(text, port); });
  options.Number("yield-after", "turns without work before it yields or\nsleeps; 0: never (256)", 0,
                 1u << 30, &port->yield_after);
}

void DeclarePortOptions(Options& options, PortOptions* port) {
  options.Text("netdev", "IFACE",
               "share an interface with the kernel and with other programs\n"
               "of Pollux, instead of --port and --address: uses the\n"
               "kernel's addresses, routes and neighbours, and takes only\n"
               "UDP port 4791 from it",
               &port->device.netdev);
  DeclareOwnPortOptions(options, port);
  options.Number("vlan", "802.1Q VLAN of addresses without vlan=", 1, kMaxVlan, &port->vlan);
  options.Text("kernel-path", "IFACE",
               "create an interface in the kernel with the port's MAC and\n"
               "addresses; it receives and sends everything that is not\n"
               "RoCE (ping, ssh, rpcbind)",
               &port->device.kernel_path);
  options.Parsed("cores", "LIST",
                 "several CPUs, with one worker and a part of the\n"
                 "connections on each, such as 2-5 or 0,2; only for\n"
                 "commands that support it",
                 [port](const std::string& text) { return ParseCores(text, port); });
  options.Number("queue-pairs", "most queue pairs per worker (16381; `pollux run --netdev`:\n2045)",
                 1, engine::DeviceOptions().queue_pairs, &port->queue_pairs);
  options.Switch("recorder",
                 "also log the last packets, timers and states of each\n"
                 "connection that fails",
                 &port->recorder);
  options.Switch("dcqcn",
                 "congestion control: data packets are ECN-capable, marks are\n"
                 "answered by CNPs, and CNPs slow senders down",
                 &port->dcqcn);
  options.Parsed("dcqcn-parameters", "NAME=VALUE,...",
                 "congestion control with parameters that differ from these\n"
                 "(Mb/s, microseconds, bytes; rpg_max_rate 0: the port's\n"
                 "speed):\n" +
                     transport::DcqcnParameters::Help(),
                 [port](const std::string& text) {
                   absl::StatusOr<transport::DcqcnParameters> parsed =
                       transport::DcqcnParameters::Parse(text);
                   if (parsed.ok()) port->dcqcn_parameters = *parsed;
                   return parsed.status();
                 });
  DeclareWireOptions(options, port);
}

absl::Status StartEal(const engine::EalOptions& eal) {
  engine::EalOptions with_telemetry = eal;
  with_telemetry.telemetry = true;
  if (absl::Status status = engine::InitEal(with_telemetry); !status.ok()) return status;
  if (const absl::Status status = engine::TelemetryStatus(); !status.ok()) {
    WriteLog(LogLevel::kWarning, "port",
             absl::StrCat("pollux: no telemetry, `pollux stat` will not find this process: ",
                          status.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<io::CaptureFile>> OpenCapture(const PortOptions& port) {
  if (port.capture.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<io::CaptureFile>> file =
      io::CaptureFile::Open(port.capture, &engine::DeviceEpochNs);
  if (!file.ok()) return file.status();
  if ((*file)->path() != port.capture) {
    WriteLog(LogLevel::kWarning, "port",
             absl::StrCat("pollux: another process writes ", port.capture,
                          "; this one captures into ", (*file)->path()));
  }
  return std::shared_ptr<io::CaptureFile>(file->release(), [](io::CaptureFile* opened) {
    const absl::Status status = opened->Close();
    if (!status.ok()) {
      WriteLog(LogLevel::kWarning, "port", absl::StrCat("pollux: ", status.message()));
    }
    delete opened;
  });
}

absl::Status CheckPortOptions(const PortOptions& port) {
  if (absl::Status status = CheckCpusExist(port.cores); !status.ok()) return status;
  if (!port.device.netdev.empty()) {
    if (port.device.port.empty() && port.device.addresses.empty() && port.device.gateways.empty() &&
        !port.device.mac && port.vlan == 0 && port.device.kernel_path.empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--netdev ", port.device.netdev,
                     " comes with its own addresses; leave --port, --address, --vlan, --gateway, "
                     "--mac and --kernel-path out"));
  }
  if (port.device.port.empty()) {
    return absl::InvalidArgumentError(
        port.device.forwards_all
            ? "which port? give --port DEVARGS, such as --port 0000:03:00.0"
            : "which port? give --port DEVARGS, such as --port net_tap0,iface=plx0, or --netdev "
              "IFACE");
  }
  for (const InterfaceAddress& own : port.device.addresses) {
    if (own.vlan == kNoVlan || !port.device.forwards_all) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("--address %s: leave it out, and give the address to a VLAN interface: "
                        "`ip link add link %s name %s.%u type vlan id %u`",
                        FormatInterfaceAddress(own), port.device.kernel_path,
                        port.device.kernel_path, own.vlan, own.vlan));
  }
  if (port.device.addresses.empty() && !port.device.forwards_all) {
    return absl::InvalidArgumentError(
        "which address? give --address ADDR/LEN, such as --address 192.0.2.1/24");
  }
  const engine::DeviceOptions device = port.Device();
  return ip::CheckConfig({.addresses = device.addresses, .gateways = device.gateways});
}

engine::DeviceOptions PortOptions::Device() const {
  engine::DeviceOptions options = device;
  if (queue_pairs != 0) options.queue_pairs = static_cast<uint32_t>(queue_pairs);
  options.mtu = static_cast<uint16_t>(mtu);
  if (dcqcn || dcqcn_parameters) {
    options.dcqcn = dcqcn_parameters.value_or(transport::DcqcnParameters{});
  }
  for (InterfaceAddress& address : options.addresses) {
    if (address.vlan == kNoVlan) address.vlan = static_cast<uint16_t>(vlan);
  }
  return options;
}

}  // namespace pollux::tools
