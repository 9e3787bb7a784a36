// The pollux command: finds the command that is asked for.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tools/common/options.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/version.h"

namespace {

using pollux::tools::kExitOk;
using pollux::tools::kExitUsage;

constexpr struct {
  pollux::tools::CommandName command;
  int (*run)(int argc, char** argv);
} kCommands[] = {
    {{"demo", "send a file through RDMA and back within this process"}, pollux::tools::DemoCommand},
    {{"serve", "serve a directory over RPC-over-RDMA"}, pollux::tools::ServeCommand},
    {{"nfsd", "serve directories by NFS version 3 over RDMA"}, pollux::tools::NfsdCommand},
    {{"put", "send a file to a server"}, pollux::tools::PutCommand},
    {{"get", "fetch a file from a server"}, pollux::tools::GetCommand},
    {{"ls", "list a server's files"}, pollux::tools::ListCommand},
    {{"nfs", "files of an NFS version 3 server: ls, get, put, stat, rm"},
     pollux::tools::NfsCommand},
    {{"ping", "connect to an RPC-over-RDMA service and call NULL"}, pollux::tools::PingCommand},
    {{"bench", "measure calls and transfers against a server"}, pollux::tools::BenchCommand},
    {{"run", "run a program made for libibverbs and librdmacm on a port"},
     pollux::tools::RunCommand},
    {{"port", "create an interface on a port, so that programs can share the port"},
     pollux::tools::PortCommand},
    {{"stat", "show counters of the Pollux processes on this host"}, pollux::tools::StatCommand},
    {{"connections", "show connections of the Pollux processes on this host"},
     pollux::tools::ConnectionsCommand},
    {{"top", "show cores, ports and connections of the Pollux processes on this host, live"},
     pollux::tools::TopCommand},
    {{"exporter",
      "serve the counters of the Pollux processes on this host to Prometheus and a browser"},
     pollux::tools::ExporterCommand},
    {{"locks", "show or release locks of an nfsd's clients"}, pollux::tools::LocksCommand},
    {{"doctor", "show what this host lacks for a port, and the command that fixes it"},
     pollux::tools::DoctorCommand},
    {{"decode", "print the frames of capture files"}, pollux::tools::DecodeCommand},
};

std::string Usage() {
  std::vector<pollux::tools::CommandName> commands;
  for (const auto& known : kCommands) commands.push_back(known.command);
  return pollux::tools::CommandsHelp(
      "COMMAND [options] [operands]", "", commands,
      "`pollux COMMAND --help` lists a command's options, `pollux --version` prints the version.");
}

int Run(int argc, char** argv) {
  for (const auto& known : kCommands) {
    if (std::strcmp(argv[0], known.command.name) == 0) return known.run(argc, argv);
  }
  std::fprintf(stderr, "pollux: no command '%s'; `pollux --help` lists the commands\n", argv[0]);
  return kExitUsage;
}

// --help-json [COMMAND...]: what `pollux COMMAND... --help` says, for tools/build/manual.py.
int HelpJson(int argc, char** argv) {
  pollux::tools::SetHelpFormat(pollux::tools::HelpFormat::kJson);
  if (argc == 0) {
    std::printf("%s", Usage().c_str());
    return kExitOk;
  }
  std::string help = "--help";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(help.data());
  arguments.push_back(nullptr);
  return Run(argc + 1, arguments.data());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "%s", Usage().c_str());
    return kExitUsage;
  }
  if (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "help") == 0) {
    std::printf("%s", Usage().c_str());
    return kExitOk;
  }
  if (std::strcmp(argv[1], "--help-json") == 0) return HelpJson(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "--version") == 0) {
    std::printf("%s", pollux::tools::VersionText().c_str());
    return kExitOk;
  }
  return Run(argc - 1, argv + 1);
}
