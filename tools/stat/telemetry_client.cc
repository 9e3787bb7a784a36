#include "tools/stat/telemetry_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "stack/engine/runtime_directory.h"
#include "tools/common/interrupt.h"

namespace pollux::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// More than DPDK sends (16 KiB), whatever the greeting says.
constexpr size_t kMaxAnswerBytes = 1 << 20;
// A system call waits at most so long; then it is repeated unless the command was interrupted. So
// every thread ends soon after a signal, although only one of them gets EINTR.
constexpr int kWaitMs = 100;
// Processes that are queried at once. More take turns.
constexpr size_t kMaxThreads = 64;

std::string PrefixOf(const std::string& path) { return fs::path(path).parent_path().filename(); }

// In words for people.
std::string Silent(const std::string& process) {
  return absl::StrCat("process ", process, " does not answer: it is stopped, or hangs");
}

// After a system call of `what` that got `error`: OK if it is to be repeated.
absl::Status CheckWait(int error, Clock::time_point end, const std::string& process,
                       const std::string& what) {
  if (error != EAGAIN && error != EINTR) {
    return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
  }
  if (Interrupted()) return absl::CancelledError("interrupted");
  if (Clock::now() >= end) return absl::DeadlineExceededError(Silent(process));
  return absl::OkStatus();
}

absl::StatusOr<int> Open(const std::string& path, Clock::time_point end) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too long for a socket's name"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "a socket");
  const timeval timeout{.tv_sec = 0, .tv_usec = kWaitMs * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  // It waits if the process's queue is full of those that it has not answered.
  while (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (absl::Status status = CheckWait(errno, end, PrefixOf(path), path); !status.ok()) {
      close(fd);
      return status;
    }
  }
  return fd;
}

// Of who listens at the other end; 0 if that is not known.
uint64_t ListenersPid(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  return static_cast<uint64_t>(peer.pid);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TelemetryClient>> TelemetryClient::Connect(
    const std::string& path, int timeout_s, Clock::time_point deadline) {
  std::unique_ptr<TelemetryClient> client(new TelemetryClient(timeout_s, deadline));
  const absl::StatusOr<int> fd = Open(path, client->RequestEnd());
  if (!fd.ok()) return fd.status();
  client->fd_ = *fd;
  client->pid_ = ListenersPid(*fd);
  client->file_prefix_ = PrefixOf(path);
  return client;
}

absl::Status TelemetryClient::Greet() {
  // At its limit of clients, DPDK accepts a further connection and closes it. A process that ends
  // also closes connections that DPDK has accepted but not greeted, and resets those not yet
  // accepted.
  const absl::StatusOr<Json> greeting = Receive(
      RequestEnd(),
      absl::ResourceExhaustedError(absl::StrCat(
          "process ", pid_, ", ", file_prefix_,
          ", has closed the connection: it is ending, or has 10 telemetry clients, the most that "
          "DPDK permits")));
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

Clock::time_point TelemetryClient::RequestEnd() const {
  return std::min(Clock::now() + std::chrono::seconds(timeout_s_), deadline_);
}

absl::StatusOr<Json> TelemetryClient::Receive(Clock::time_point end, const absl::Status& closed) {
  const std::string name = absl::StrCat(pid_, ", ", file_prefix_, ",");
  std::string text(max_answer_bytes_, '\0');
  ssize_t bytes = 0;
  while ((bytes = recv(fd_, text.data(), text.size(), 0)) < 0) {
    absl::Status status = CheckWait(errno, end, name, absl::StrCat("process ", pid_));
    if (!status.ok()) return status;
  }
  if (bytes == 0) return closed;
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
  const std::string name = absl::StrCat(pid_, ", ", file_prefix_, ",");
  // The deadline also ends a long series of requests that are each answered quickly.
  if (Clock::now() >= deadline_) return absl::DeadlineExceededError(Silent(name));
  const Clock::time_point end = RequestEnd();
  while (send(fd_, line.data(), line.size(), MSG_NOSIGNAL) < 0) {
    absl::Status status =
        CheckWait(errno, end, name, absl::StrCat("cannot send ", command, " to process ", pid_));
    if (!status.ok()) return status;
  }
  absl::StatusOr<Json> answer =
      Receive(end, absl::UnavailableError(absl::StrCat("process ", pid_, " has ended")));
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
// other programs over DPDK, are nothing. Cancelled if interrupted.
absl::Status AddProcess(const std::string& path, const ProcessChoice& choice,
                        const ProcessQuery& query, Processes* found) {
  auto client = TelemetryClient::Connect(path, choice.timeout_s, choice.deadline);
  const absl::Status greeted = client.ok() ? (*client)->Greet() : client.status();
  if (absl::IsCancelled(greeted)) return greeted;
  const std::string file_prefix = PrefixOf(path);
  const uint64_t pid = client.ok() ? (*client)->pid() : PidIn(file_prefix);
  // A process of unknown ID may be the chosen one.
  if (choice.pid && pid != 0 && pid != *choice.pid) return absl::OkStatus();
  if (!greeted.ok()) {
    if (absl::IsDeadlineExceeded(greeted) || (client.ok() && absl::IsResourceExhausted(greeted))) {
      found->silent.push_back({pid, file_prefix, std::string(greeted.message())});
    }
    return absl::OkStatus();
  }
  const absl::StatusOr<Json> workers = (*client)->Ask("workers");
  if (absl::IsCancelled(workers.status())) return workers.status();
  if (!workers.ok()) {
    found->silent.push_back(
        {pid, file_prefix, absl::StrCat("process ", pid, ": ", workers.status().message())});
  } else if (workers->is_object()) {
    if (query) query(**client);
    found->answering.push_back(*std::move(client));
  }
  return absl::OkStatus();
}

// The telemetry sockets of the chosen file prefix.
std::vector<std::string> SocketPaths(const ProcessChoice& choice) {
  std::vector<std::string> paths;
  std::error_code error;
  const std::string runtime = engine::RuntimeDirectory();
  for (const fs::directory_entry& directory : fs::directory_iterator(runtime, error)) {
    if (!choice.file_prefix.empty() && directory.path().filename() != choice.file_prefix) continue;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory.path(), ignored)) {
      const std::string name = entry.path().filename();
      if (absl::StartsWith(name, engine::kTelemetrySocket)) paths.push_back(entry.path());
    }
  }
  return paths;
}

}  // namespace

absl::StatusOr<Processes> LookForProcesses(const ProcessChoice& choice, const ProcessQuery& query) {
  // Root may look at what another user runs.
  if (geteuid() != 0) {
    if (const absl::Status own = engine::CheckRuntimeDirectory(); !own.ok()) return own;
  }
  const std::vector<std::string> paths = SocketPaths(choice);
  std::vector<Processes> found_at(paths.size());
  std::vector<absl::Status> statuses(paths.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) {
      statuses[i] = AddProcess(paths[i], choice, query, &found_at[i]);
    }
  };
  // All at once, so that stopped processes do not delay the others. This thread takes part.
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(paths.size(), kMaxThreads); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  Processes found;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!statuses[i].ok()) return statuses[i];
    std::ranges::move(found_at[i].answering, std::back_inserter(found.answering));
    std::ranges::move(found_at[i].silent, std::back_inserter(found.silent));
  }
  const auto is_unknown = [](const SilentProcess& one) { return one.pid == 0; };
  if (choice.pid && (!found.answering.empty() || !std::ranges::all_of(found.silent, is_unknown))) {
    std::erase_if(found.silent, is_unknown);
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
