// What of a program's file decides which libraries the loader gives it.
#ifndef POLLUX_TOOLS_POLLUX_PROGRAM_FILE_H_
#define POLLUX_TOOLS_POLLUX_PROGRAM_FILE_H_

#include <string>

namespace pollux::tools {

// The file that execvp(3) starts for `name`; empty: none.
std::string FindProgram(const std::string& name);

struct ProgramFile {
  // Its DT_RPATH names directories that the loader looks into before those of LD_LIBRARY_PATH.
  // DT_RUNPATH, with which DT_RPATH does not count, comes after them.
  bool has_rpath = false;
  // What it gains when it is started by this process, "setuid" or so: the loader then takes no
  // libraries from the environment. Empty: nothing.
  std::string gains;
  // No loader gives it any libraries.
  bool is_static = false;
  // The loader gives it libraries of 32 bits only.
  bool has_32_bits = false;
};

// As it is by default where `path` is no program; one that cannot be read may gain, and of one of
// 32 bits nothing else is said.
ProgramFile ReadProgramFile(const std::string& path);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_PROGRAM_FILE_H_
