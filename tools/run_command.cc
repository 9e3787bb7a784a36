// pollux run: a program that was compiled for libibverbs and librdmacm, on a Pollux port.
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/port_options.h"
#include "tools/report.h"

namespace pollux::tools {
namespace {

// As a shell: the program is not there, or cannot be started.
constexpr int kExitNotFound = 127;
constexpr int kExitNotStarted = 126;

// Read by the libraries; see abi/settings.h.
constexpr char kSettingsVariable[] = "POLLUX_RUN";
constexpr char kLibraryPath[] = "LD_LIBRARY_PATH";
constexpr char kPreload[] = "LD_PRELOAD";
constexpr char kDeviceFile[] = "libpollux_device_file.so";
constexpr const char* kLibraries[] = {"libibverbs.so.1", "libpollux_verbs.so", "librdmacm.so.1",
                                      kDeviceFile};

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

// Where the libraries lie: beside the command's own directory, as the build leaves them.
absl::StatusOr<std::string> FindLibraries() {
  std::error_code error;
  const std::filesystem::path command = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path directory = command.parent_path().parent_path() / "abi";
  for (const char* library : kLibraries) {
    if (access((directory / library).c_str(), R_OK) == 0) continue;
    return absl::NotFoundError(absl::StrCat((directory / library).string(), ": ",
                                            std::strerror(errno),
                                            "; the build makes it (//:verbs_libraries)"));
  }
  return directory.string();
}

// Puts `first` before what the list holds already.
void Prepend(const char* list, const std::string& first) {
  const char* before = std::getenv(list);
  const bool alone = before == nullptr || *before == '\0';
  setenv(list, alone ? first.c_str() : absl::StrCat(first, ":", before).c_str(), 1);
}

void SetEnvironment(const Options& options, const PortOptions& port, const std::string& libraries) {
  std::string settings;
  for (const auto& [name, value] : options.given()) {
    const bool core = name == "core" || name == "cores";  // one, in whichever words
    absl::StrAppend(&settings, core ? "core" : name, value.empty() ? "" : "=",
                    core ? absl::StrCat(port.cores.front()) : value, "\n");
  }
  setenv(kSettingsVariable, settings.c_str(), 1);
  Prepend(kLibraryPath, libraries);
  Prepend(kPreload, absl::StrCat(libraries, "/", kDeviceFile));
}

// Returns only when the program could not be started: the exit status.
int Become(char** argv) {
  execvp(argv[0], argv);
  const int error = errno;
  std::fprintf(stderr, "pollux run: %s: %s\n", argv[0], std::strerror(error));
  return error == ENOENT ? kExitNotFound : kExitNotStarted;
}

}  // namespace

int RunCommand(int argc, char** argv) {
  PortOptions port;
  Options options(
      "run [options] -- PROGRAM [ARGUMENT...]",
      "Starts PROGRAM, made for libibverbs and librdmacm, on a port of Pollux: its only\n"
      "RDMA device is pollux0. Replaces itself by the program; nothing is installed.");
  DeclarePortOptions(options, &port);
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
  SetEnvironment(options, port, *libraries);
  return Become(argv + own + 1);
}

}  // namespace pollux::tools
