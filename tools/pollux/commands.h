// The commands of `pollux`, one file each. Each takes its own name as argv[0] and returns the exit
// status (tools/common/options.h).
#ifndef POLLUX_TOOLS_POLLUX_COMMANDS_H_
#define POLLUX_TOOLS_POLLUX_COMMANDS_H_

namespace pollux::tools {

int DemoCommand(int argc, char** argv);
int ServeCommand(int argc, char** argv);
int PutCommand(int argc, char** argv);
int GetCommand(int argc, char** argv);
int ListCommand(int argc, char** argv);
int PingCommand(int argc, char** argv);
int BenchCommand(int argc, char** argv);
int DecodeCommand(int argc, char** argv);
int NfsCommand(int argc, char** argv);
int NfsdCommand(int argc, char** argv);
int RunCommand(int argc, char** argv);
int PortCommand(int argc, char** argv);
int StatCommand(int argc, char** argv);
int ConnectionsCommand(int argc, char** argv);
int LocksCommand(int argc, char** argv);
int TopCommand(int argc, char** argv);
int ExporterCommand(int argc, char** argv);
int DoctorCommand(int argc, char** argv);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_COMMANDS_H_
