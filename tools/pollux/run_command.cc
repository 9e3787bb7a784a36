// pollux run: a program that was compiled for libibverbs and librdmacm, on a Pollux port.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/program_file.h"

namespace pollux::tools {
namespace {

// As a shell: the program is not there, or cannot be started.
constexpr int kExitNotFound = 127;
constexpr int kExitNotStarted = 126;

// Read by the libraries; see compat/runtime/settings.h.
constexpr char kSettingsVariable[] = "POLLUX_RUN";
constexpr char kLibraryPath[] = "LD_LIBRARY_PATH";
constexpr char kPreload[] = "LD_PRELOAD";
constexpr char kAsanOptions[] = "ASAN_OPTIONS";
constexpr char kDeviceFile[] = "libpollux_device_file.so";
constexpr char kSupervisor[] = "pollux_supervisor";
constexpr const char* kFronts[] = {"libibverbs.so.1", "librdmacm.so.1"};
constexpr char kPreloadOption[] = "preload";
constexpr const char* kLibraries[] = {"libibverbs.so.1", "libpollux_verbs.so", "librdmacm.so.1",
                                      kDeviceFile, kSupervisor};

// Whether a thread of the program's could poll there, which nobody would say once the program runs.
absl::Status CheckCpu(int cpu) {
  cpu_set_t before, wanted;
  CPU_ZERO(&wanted);
  CPU_SET(static_cast<unsigned>(cpu), &wanted);
  if (sched_getaffinity(0, sizeof before, &before) != 0) return absl::OkStatus();
  if (sched_setaffinity(0, sizeof wanted, &wanted) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("CPU ", cpu,
                                                   ": this process may not run there (",
                                                   std::strerror(errno), "); see `taskset -p $$`"));
  }
  sched_setaffinity(0, sizeof before, &before);
  return absl::OkStatus();
}

// Where the libraries lie, from the parent of the command's own directory: as the build leaves
// them, and as they are installed.
constexpr const char* kPlaces[] = {"../compat", "lib/pollux"};

// Of the paths in LD_LIBRARY_PATH and LD_PRELOAD, which know no way to quote one.
constexpr char kSeparators[] = " :;\t\n";

absl::StatusOr<std::string> FindLibraries() {
  std::error_code error;
  const std::filesystem::path command = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path above = command.parent_path().parent_path();
  std::string missing;
  for (const char* place : kPlaces) {
    const std::filesystem::path directory = (above / place).lexically_normal();
    const auto* const lacks = std::ranges::find_if(kLibraries, [&](const char* library) {
      return access((directory / library).c_str(), R_OK) != 0;
    });
    if (lacks == std::end(kLibraries)) {
      if (directory.string().find_first_of(kSeparators) == std::string::npos) {
        return directory.string();
      }
      return absl::FailedPreconditionError(
          absl::StrCat(directory.string(),
                       ": the loader accepts no path with a space, ':' or ';'; `tools/dev "
                       "install --prefix DIR` puts the libraries elsewhere"));
    }
    if (errno == EACCES) {
      return absl::PermissionDeniedError(
          absl::StrCat((directory / *lacks).string(), ": this user (", geteuid(),
                       ") may not read it; `tools/dev install --prefix DIR` puts it where every "
                       "user may read it"));
    }
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", (directory / *lacks).string());
  }
  return absl::NotFoundError(
      absl::StrCat("not found: ", missing,
                   "; `tools/dev install --prefix DIR` installs the command with its libraries, "
                   "which it needs beside it; `bazel build //:verbs_libraries` builds them"));
}

std::string Join(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : absl::StrCat(first, ":", second);
}

std::string ValueOf(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

void SetSettings(const Options& options, const PortOptions& port, const std::string& directory) {
  std::string settings = absl::StrCat("supervisor=", directory, "/", kSupervisor, "\n");
  for (const auto& [name, value] : options.given()) {
    if (name == kPreloadOption) continue;
    const bool core = name == "core" || name == "cores";  // one, in whichever words
    absl::StrAppend(&settings, core ? "core" : name, value.empty() ? "" : "=",
                    core ? absl::StrCat(port.cores.front()) : value, "\n");
  }
  setenv(kSettingsVariable, settings.c_str(), 1);
}

// What the environment has of LD_PRELOAD, but for libraries of a `pollux run` around this one,
// which may be another build's: of two builds mixed each would have a part.
std::string PreloadOfOthers() {
  std::string others;
  const std::string before = ValueOf(kPreload);
  const std::vector<std::string> files =
      absl::StrSplit(before, absl::ByAnyChar(" :"), absl::SkipEmpty());
  for (const std::string& file : files) {
    const std::string name = std::filesystem::path(file).filename().string();
    if (std::ranges::find(kLibraries, name) == std::end(kLibraries)) others = Join(others, file);
  }
  return others;
}

// `fronts`: the loader finds the real libraries before it looks where LD_LIBRARY_PATH says; loaded
// by their files, these are there already under the names that it looks for. Else not: every
// process that the program starts would load them, and DPDK with them.
void SetLibraries(const std::string& directory, bool fronts) {
  setenv(kLibraryPath, Join(directory, ValueOf(kLibraryPath)).c_str(), 1);
  // Behind what is there: some libraries (of sanitizers) insist on being the first.
  std::string preload = Join(PreloadOfOthers(), absl::StrCat(directory, "/", kDeviceFile));
  for (const char* front : kFronts) {
    if (fronts) preload = Join(preload, absl::StrCat(directory, "/", front));
  }
  setenv(kPreload, preload.c_str(), 1);
  // A program made with -fsanitize=address would not start behind a library that is preloaded.
  setenv(kAsanOptions, Join("verify_asan_link_order=0", ValueOf(kAsanOptions)).c_str(), 1);
}

// Returns only when the program could not be started: the exit status.
int Become(char** argv) {
  execvp(argv[0], argv);
  const int error = errno;
  std::fprintf(stderr, "pollux run: %s: %s\n", argv[0], std::strerror(error));
  return error == ENOENT ? kExitNotFound : kExitNotStarted;
}

// Empty: the loader gives it those of Pollux. It would run without them, and find no device.
std::string WhyWithoutLibraries(const ProgramFile& program) {
  if (program.has_32_bits) return "is a 32-bit program, but the libraries of Pollux are 64-bit";
  if (!program.gains.empty()) {
    return absl::StrCat("is ", program.gains,
                        ", and for such a program the loader uses only the system's libraries; run "
                        "it as the user whose rights it gains, or run a copy of it");
  }
  if (program.is_static) {
    return "is linked statically, so it cannot use the libraries of Pollux; link it with the "
           "shared libibverbs.so.1";
  }
  return "";
}

}  // namespace

int RunCommand(int argc, char** argv) {
  PortOptions port;
  Options options("run [options] -- PROGRAM [ARGUMENT...]",
                  "Runs PROGRAM, made for libibverbs and librdmacm, on a port of Pollux: its only\n"
                  "RDMA device is pollux0. Replaces itself by the program; nothing is installed.\n"
                  "`pollux stat` and `pollux connections` show it if it has a --file-prefix.");
  DeclarePortOptions(options, &port);
  bool preload = false;
  options.Switch(kPreloadOption,
                 "load the libraries by LD_PRELOAD, also into each process\n"
                 "that PROGRAM starts (some 30 ms each). Needed if one of\n"
                 "its libraries has an RPATH to the real ones, or if it is\n"
                 "a script that starts such a program (an RPATH of PROGRAM\n"
                 "itself is detected)",
                 &preload);
  int own = 0;
  while (own < argc && std::strcmp(argv[own], "--") != 0) ++own;
  if (auto operands = options.Parse(own, argv, 0, 0); !operands.ok()) {
    return Fail("run", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  if (port.cores.size() > 1) {
    return Fail("run",
                absl::InvalidArgumentError("--cores: programs run on one worker; give --core N"));
  }
  if (own + 1 >= argc) {
    return Fail("run", absl::InvalidArgumentError("which program? give -- PROGRAM [ARGUMENT...]"));
  }
  if (absl::Status status = CheckPortOptions(port); !status.ok()) return Fail("run", status);
  if (!port.cores.empty()) {
    if (absl::Status status = CheckCpu(port.cores.front()); !status.ok()) {
      return Fail("run", status);
    }
  }
  const absl::StatusOr<std::string> libraries = FindLibraries();
  if (!libraries.ok()) return Fail("run", libraries.status());
  const ProgramFile program = ReadProgramFile(FindProgram(argv[own + 1]));
  if (const std::string why = WhyWithoutLibraries(program); !why.empty()) {
    std::fprintf(stderr, "pollux run: %s: %s\n", argv[own + 1], why.c_str());
    return kExitNotStarted;
  }
  SetSettings(options, port, *libraries);
  SetLibraries(*libraries, preload || program.has_rpath);
  return Become(argv + own + 1);
}

}  // namespace pollux::tools
