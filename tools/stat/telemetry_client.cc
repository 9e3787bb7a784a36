#include "tools/stat/telemetry_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "stack/engine/runtime_directory.h"

namespace pollux::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// More than DPDK sends (16 KiB), whatever the greeting says.
constexpr size_t kMaxAnswerBytes = 1 << 20;

std::string PrefixOf(const std::string& path) { return fs::path(path).parent_path().filename(); }

// In words for people.
std::string Silent(const std::string& process) {
  return absl::StrCat("process ", process, " does not answer: it is stopped, or hangs");
}

absl::StatusOr<int> Open(const std::string& path, int timeout_s) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too long for a socket's name"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "a socket");
  const timeval timeout{.tv_sec = timeout_s, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  const int error = errno;
  close(fd);
  // Its queue is full of those that it has not answered.
  if (error == EAGAIN) return absl::DeadlineExceededError(Silent(PrefixOf(path)));
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error)));
}

// Of who listens at the other end; 0 if that is not known.
uint64_t ListenersPid(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  return static_cast<uint64_t>(peer.pid);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TelemetryClient>> TelemetryClient::Connect(const std::string& path,
                                                                          int timeout_s) {
  const absl::StatusOr<int> fd = Open(path, timeout_s);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<TelemetryClient> client(new TelemetryClient());
  client->fd_ = *fd;
  client->pid_ = ListenersPid(*fd);
  client->file_prefix_ = PrefixOf(path);
  return client;
}

absl::Status TelemetryClient::Greet() {
  const absl::StatusOr<Json> greeting = Receive();
  if (!greeting.ok()) return greeting.status();
  const auto pid = greeting->find("pid");
  const auto bytes = greeting->find("max_output_len");
  if (pid == greeting->end() || !pid->is_number_unsigned() || bytes == greeting->end() ||
      !bytes->is_number_unsigned()) {
    return absl::DataLossError(absl::StrCat(file_prefix_, ": not DPDK's telemetry"));
  }
  pid_ = pid->get<uint64_t>();
  max_answer_bytes_ = std::clamp(bytes->get<size_t>(), max_answer_bytes_, kMaxAnswerBytes);
  return absl::OkStatus();
}

TelemetryClient::~TelemetryClient() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Json> TelemetryClient::Receive() {
  std::string text(max_answer_bytes_, '\0');
  const ssize_t bytes = recv(fd_, text.data(), text.size(), 0);
  if (bytes < 0) {
    return absl::DeadlineExceededError(Silent(absl::StrCat(pid_, ", ", file_prefix_, ",")));
  }
  if (bytes == 0) return absl::UnavailableError(absl::StrCat("process ", pid_, " has ended"));
  text.resize(static_cast<size_t>(bytes));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError(
        absl::StrCat("process ", pid_, " does not answer with a JSON object"));
  }
  return json;
}

absl::StatusOr<Json> TelemetryClient::Ask(const std::string& topic, const std::string& parameters) {
  const std::string command = absl::StrCat("/pollux/", topic);
  const std::string line = parameters.empty() ? command : absl::StrCat(command, ",", parameters);
  if (send(fd_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
    return absl::UnavailableError(
        absl::StrCat("cannot send ", command, " to process ", pid_, ": ", std::strerror(errno)));
  }
  absl::StatusOr<Json> answer = Receive();
  if (!answer.ok()) return answer.status();
  const auto found = answer->find(command);
  if (found == answer->end()) {
    return absl::DataLossError(
        absl::StrCat("the reply of process ", pid_, " is not for ", command));
  }
  Json value = *found;
  if (value.is_object()) {
    const auto error = value.find("error");
    const auto code = value.find("code");
    if (error != value.end() && error->is_string() && code != value.end() &&
        code->is_number_unsigned() && *code != 0u) {
      return absl::Status(static_cast<absl::StatusCode>(code->get<int>()),
                          error->get<std::string>());
    }
  }
  return value;
}

namespace {

// That a default file prefix ends with; 0: it is another.
uint64_t PidIn(absl::string_view file_prefix) {
  uint64_t pid = 0;
  const bool usual =
      absl::ConsumePrefix(&file_prefix, engine::kFilePrefix) && absl::SimpleAtoi(file_prefix, &pid);
  return usual ? pid : 0;
}

// Who listens at `path`, if it runs Pollux and was chosen. What a killed process has left, and
// other programs over DPDK, are nothing.
void AddProcess(const std::string& path, const ProcessChoice& choice, Processes* found) {
  auto client = TelemetryClient::Connect(path, choice.timeout_s);
  const absl::Status greeted = client.ok() ? (*client)->Greet() : client.status();
  const std::string file_prefix = PrefixOf(path);
  const uint64_t pid = client.ok() ? (*client)->pid() : PidIn(file_prefix);
  if (choice.pid && pid != *choice.pid) return;
  if (!greeted.ok()) {
    if (absl::IsDeadlineExceeded(greeted)) {
      found->silent.push_back({pid, file_prefix, std::string(greeted.message())});
    }
    return;
  }
  const absl::StatusOr<Json> workers = (*client)->Ask("workers");
  if (!workers.ok()) {
    found->silent.push_back(
        {pid, file_prefix, absl::StrCat("process ", pid, ": ", workers.status().message())});
  } else if (workers->is_object()) {
    found->answering.push_back(*std::move(client));
  }
}

}  // namespace

absl::StatusOr<Processes> LookForProcesses(const ProcessChoice& choice) {
  // Root may look at what another user runs.
  if (geteuid() != 0) {
    if (const absl::Status own = engine::CheckRuntimeDirectory(); !own.ok()) return own;
  }
  Processes found;
  std::error_code error;
  const std::string runtime = engine::RuntimeDirectory();
  for (const fs::directory_entry& directory : fs::directory_iterator(runtime, error)) {
    if (!choice.file_prefix.empty() && directory.path().filename() != choice.file_prefix) continue;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory.path(), ignored)) {
      const std::string name = entry.path().filename();
      if (!absl::StartsWith(name, engine::kTelemetrySocket)) continue;
      AddProcess(entry.path(), choice, &found);
    }
  }
  std::ranges::sort(found.answering, {}, [](const auto& client) { return client->pid(); });
  return found;
}

absl::StatusOr<Processes> FindProcesses(const ProcessChoice& choice) {
  absl::StatusOr<Processes> found = LookForProcesses(choice);
  if (!found.ok()) return found.status();
  if (found->answering.empty()) {
    const std::string which = choice.pid ? absl::StrCat("no pollux process ", *choice.pid)
                              : !choice.file_prefix.empty()
                                  ? absl::StrCat("no pollux process of ", choice.file_prefix)
                                  : std::string("no pollux process");
    if (!found->silent.empty()) {
      return absl::NotFoundError(absl::StrJoin(
          found->silent, "; ",
          [](std::string* to, const SilentProcess& one) { absl::StrAppend(to, one.reason); }));
    }
    return absl::NotFoundError(
        absl::StrCat(which, " runs here (none answers in ", engine::RuntimeDirectory(),
                     "); run as the same user, in the same container; programs of "
                     "`pollux run` answer if they have a --file-prefix"));
  }
  return found;
}

}  // namespace pollux::tools
