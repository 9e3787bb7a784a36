#include "tests/bench/peer_load.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pollux::bench {
namespace {

using Json = nlohmann::json;

std::string ReadAll(int fd) {
  std::string all;
  char some[4096];
  for (;;) {
    const ssize_t n = read(fd, some, sizeof some);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return all;
    all.append(some, static_cast<size_t>(n));
  }
}

// What it says on standard output.
absl::StatusOr<std::string> OutputOf(std::vector<std::string> command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (std::string& part : command) argv.push_back(part.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string said = error == 0 ? ReadAll(ends[0]) : "";
  close(ends[0]);
  if (error != 0) return absl::ErrnoToStatus(error, argv[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return said;
  return absl::InternalError(absl::StrCat(absl::StrJoin(command, " "), " has failed"));
}

}  // namespace

absl::Status RecordPeer(const std::string& program, const std::string& peer, double scale,
                        Figures& figures) {
  const absl::StatusOr<std::string> said =
      OutputOf({"python3", program, peer, "--scale", absl::StrCat(scale)});
  if (!said.ok()) return absl::InternalError(said.status().message());
  const Json json = Json::parse(*said, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("figures") || !json.contains("missing")) {
    return absl::InternalError(absl::StrCat(program, " ", peer, " said: ", *said));
  }
  for (const auto& [name, figure] : json["figures"].items()) {
    figures.Record(name, figure["unit"].get<std::string>().c_str(), figure["value"].get<double>());
  }
  for (const auto& [name, why] : json["missing"].items()) {
    figures.missing[name] = why.get<std::string>();
  }
  return absl::OkStatus();
}

}  // namespace pollux::bench
