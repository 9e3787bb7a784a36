// The properties of a program's file that decide which libraries the loader uses.
#ifndef POLLUX_TOOLS_POLLUX_PROGRAM_FILE_H_
#define POLLUX_TOOLS_POLLUX_PROGRAM_FILE_H_

#include <string>

namespace pollux::tools {

// The file that execvp(3) would start for `name`; empty if there is none.
std::string FindProgram(const std::string& name);

struct ProgramFile {
  // It has a DT_RPATH, whose directories the loader searches before those of LD_LIBRARY_PATH. False
  // if it also has a DT_RUNPATH: DT_RPATH is then ignored, and DT_RUNPATH is searched after
  // LD_LIBRARY_PATH.
  bool has_rpath = false;
  // The privileges that it gains when this process starts it, for example "setuid": the loader then
  // ignores the environment. Empty: none.
  std::string gains;
  // It uses no dynamic loader.
  bool is_static = false;
  // It is a 32-bit program, which needs 32-bit libraries.
  bool has_32_bits = false;
};

// Returns the defaults if `path` is not a program. Only `gains` is set if it cannot be read, and
// only has_32_bits for a 32-bit program.
ProgramFile ReadProgramFile(const std::string& path);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_PROGRAM_FILE_H_
