// The pollux command: finds the command that is asked for.
#include <cstdio>
#include <cstring>

#include "tools/common/options.h"
#include "tools/common/version.h"
#include "tools/pollux/commands.h"

namespace {

constexpr struct {
  const char* name;
  int (*run)(int argc, char** argv);
  const char* about;
} kCommands[] = {
    {"demo", pollux::tools::DemoCommand, "send a file through RDMA and back within this process"},
    {"serve", pollux::tools::ServeCommand, "serve a directory over RPC-over-RDMA"},
    {"nfsd", pollux::tools::NfsdCommand, "serve directories by NFS version 3 over RDMA"},
    {"put", pollux::tools::PutCommand, "send a file to a server"},
    {"get", pollux::tools::GetCommand, "fetch a file from a server"},
    {"ls", pollux::tools::ListCommand, "list a server's files"},
    {"nfs", pollux::tools::NfsCommand, "files of an NFS version 3 server: ls, get, put, stat, rm"},
    {"ping", pollux::tools::PingCommand, "connect to an RPC-over-RDMA service and call NULL"},
    {"bench", pollux::tools::BenchCommand, "measure calls and transfers against a server"},
    {"run", pollux::tools::RunCommand, "run a program made for libibverbs and librdmacm on a port"},
    {"stat", pollux::tools::StatCommand, "show counters of the Pollux processes on this host"},
    {"connections", pollux::tools::ConnectionsCommand,
     "show connections of the Pollux processes on this host"},
    {"top", pollux::tools::TopCommand,
     "show cores, ports and connections of the Pollux processes on this host, live"},
    {"locks", pollux::tools::LocksCommand, "show or release locks of an nfsd's clients"},
    {"doctor", pollux::tools::DoctorCommand,
     "say what this host lacks for a port, and the command that mends it"},
    {"decode", pollux::tools::DecodeCommand, "print the frames of capture files"},
};

void Usage(FILE* out) {
  std::fprintf(out, "usage: pollux COMMAND [options] [operands]\n\ncommands:\n");
  for (const auto& command : kCommands) {
    std::fprintf(out, "  %-13s%s\n", command.name, command.about);
  }
  std::fprintf(out,
               "\n`pollux COMMAND --help` lists a command's options, `pollux --version` tells the "
               "version.\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    Usage(stderr);
    return pollux::tools::kExitUsage;
  }
  if (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "help") == 0) {
    Usage(stdout);
    return pollux::tools::kExitOk;
  }
  if (std::strcmp(argv[1], "--version") == 0) {
    std::printf("pollux %s\n", pollux::tools::kVersion);
    return pollux::tools::kExitOk;
  }
  for (const auto& command : kCommands) {
    if (std::strcmp(argv[1], command.name) == 0) return command.run(argc - 1, argv + 1);
  }
  std::fprintf(stderr, "pollux: no command '%s'; `pollux --help` lists the commands\n", argv[1]);
  return pollux::tools::kExitUsage;
}
