// Queries running processes through DPDK's telemetry sockets.
#ifndef POLLUX_TOOLS_STAT_TELEMETRY_CLIENT_H_
#define POLLUX_TOOLS_STAT_TELEMETRY_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pollux::tools {

// A connection to one process. Handles one request at a time, with the time limits given to
// Connect(). All calls return Cancelled if the command is interrupted (tools/common/interrupt.h)
// while they wait.
class TelemetryClient {
 public:
  static constexpr int kTimeoutS = 5;

  // Connects to the socket at `path`; call Greet() next. Unavailable if no process listens there
  // any more, DeadlineExceeded if the process accepts no more connections. A request takes at most
  // `timeout_s`, and none takes longer than until `deadline`.
  static absl::StatusOr<std::unique_ptr<TelemetryClient>> Connect(
      const std::string& path, int timeout_s = kTimeoutS,
      std::chrono::steady_clock::time_point deadline =
          std::chrono::steady_clock::time_point::max());
  ~TelemetryClient();
  TelemetryClient(const TelemetryClient&) = delete;
  TelemetryClient& operator=(const TelemetryClient&) = delete;

  // Receives the process's greeting. DataLoss if it is not DPDK; DeadlineExceeded if there is no
  // greeting, because the process is stopped or hangs; ResourceExhausted if the process has as many
  // clients as DPDK permits, or is ending.
  absl::Status Greet();
  // Before the greeting, the process ID as known to the kernel; 0 if it is unknown.
  uint64_t pid() const { return pid_; }
  const std::string& file_prefix() const { return file_prefix_; }

  // Sends "/pollux/TOPIC,PARAMETERS" and returns the reply; null if the process does not know the
  // command. If the reply is an error, returns that: NotFound if the object does not exist,
  // DeadlineExceeded if the worker is not polled.
  absl::StatusOr<nlohmann::ordered_json> Ask(const std::string& topic,
                                             const std::string& parameters = "");

 private:
  TelemetryClient(int timeout_s, std::chrono::steady_clock::time_point deadline)
      : timeout_s_(timeout_s), deadline_(deadline) {}
  // For a request that begins now.
  std::chrono::steady_clock::time_point RequestEnd() const;
  // `closed` is returned if the process closes the connection.
  absl::StatusOr<nlohmann::ordered_json> Receive(std::chrono::steady_clock::time_point end,
                                                 const absl::Status& closed);

  const int timeout_s_;
  const std::chrono::steady_clock::time_point deadline_;
  int fd_ = -1;
  uint64_t pid_ = 0;
  size_t max_answer_bytes_ = 1024;  // until the greeting sets it
  std::string file_prefix_;
};

// The processes to query; by default all.
struct ProcessChoice {
  std::optional<uint64_t> pid;
  std::string file_prefix;
  int timeout_s = TelemetryClient::kTimeoutS;
  // For all requests together.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// A process that exists but does not answer.
struct SilentProcess {
  uint64_t pid = 0;  // 0: unknown
  std::string file_prefix;
  std::string reason;  // a message of one line
};

struct Processes {
  std::vector<std::unique_ptr<TelemetryClient>> answering;  // ordered by process ID
  std::vector<SilentProcess> silent;
};

// More requests to a process that answers. Called for several processes at once, on several
// threads.
using ProcessQuery = std::function<void(TelemetryClient&)>;

// Returns the chosen processes that run Pollux, if there are any, after `query` was called for each
// that answers. PermissionDenied if another user may change the directory of the sockets; Cancelled
// if interrupted.
absl::StatusOr<Processes> LookForProcesses(const ProcessChoice& choice,
                                           const ProcessQuery& query = nullptr);
// The same, but NotFound, with an explanation, if none answers.
absl::StatusOr<Processes> FindProcesses(const ProcessChoice& choice);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_TELEMETRY_CLIENT_H_
