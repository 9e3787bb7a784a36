// pollux port: an interface of the kernel on a port that only one process can open, which programs
// share by --netdev, until interrupted.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tools/common/interrupt.h"
#include "tools/common/log_format.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/common/start_node.h"
#include "tools/file_service/session.h"
#include "tools/pollux/commands.h"

namespace pollux::tools {
namespace {

absl::Status Forward(const PortOptions& port) {
  if (port.device.kernel_path.empty()) {
    return absl::InvalidArgumentError("which interface? give --interface NAME");
  }
  absl::StatusOr<std::unique_ptr<Node>> node = StartNode(port);
  if (!node.ok()) return node.status();
  WriteLog(LogLevel::kInfo, "port",
           absl::StrCat("port ", (*node)->device().port().name(), " is interface ",
                        port.device.kernel_path));
  return StayUntilInterrupted(**node, {.name = "port"});
}

}  // namespace

int PortCommand(int argc, char** argv) {
  PortOptions port;
  port.device.forwards_all = true;
  Options options(
      "port [options]",
      "Creates an interface of the kernel on a port that only one process can open (a PCI NIC, "
      "net_memif). Programs share it by --netdev, until SIGINT or SIGTERM ends this command.");
  options.Text("interface", "NAME", "the interface to create; it has the port's MAC and MTU",
               &port.device.kernel_path);
  DeclareOwnPortOptions(options, &port);
  DeclareWireOptions(options, &port);
  DeclareLogOption(options);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("port", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  CatchInterrupts(ClosedPipe::kInterrupts, Hangup::kReloads);
  const absl::Status status = Forward(port);
  return status.ok() ? kExitOk : Fail("port", status);
}

}  // namespace pollux::tools
