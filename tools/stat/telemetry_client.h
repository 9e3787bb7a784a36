// Asks running processes by DPDK's telemetry sockets.
#ifndef POLLUX_TOOLS_STAT_TELEMETRY_CLIENT_H_
#define POLLUX_TOOLS_STAT_TELEMETRY_CLIENT_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pollux::tools {

// One process. Questions are answered one at a time, each within the timeout it was made with.
class TelemetryClient {
 public:
  static constexpr int kTimeoutS = 5;

  // Unavailable when nobody listens at `path` any more, DeadlineExceeded when who does takes no
  // more questions. Nothing was asked yet: Greet() comes next.
  static absl::StatusOr<std::unique_ptr<TelemetryClient>> Connect(const std::string& path,
                                                                  int timeout_s = kTimeoutS);
  ~TelemetryClient();
  TelemetryClient(const TelemetryClient&) = delete;
  TelemetryClient& operator=(const TelemetryClient&) = delete;

  // Takes the process's greeting. DataLoss when it is no DPDK, DeadlineExceeded when it does not
  // greet: it is stopped, or hangs.
  absl::Status Greet();
  // Before the greeting as the kernel knows it; 0 where it does not.
  uint64_t pid() const { return pid_; }
  const std::string& file_prefix() const { return file_prefix_; }

  // What "/pollux/TOPIC,PARAMETERS" is answered with; null when the process does not know it.
  // When the process answers with an error, that error: NotFound when there is no such thing,
  // DeadlineExceeded when the worker that was asked is not polled.
  absl::StatusOr<nlohmann::ordered_json> Ask(const std::string& topic,
                                             const std::string& parameters = "");

 private:
  TelemetryClient() = default;
  absl::StatusOr<nlohmann::ordered_json> Receive();

  int fd_ = -1;
  uint64_t pid_ = 0;
  size_t max_answer_bytes_ = 1024;  // before the greeting says it
  std::string file_prefix_;
};

// Which processes to ask; nothing: all.
struct ProcessChoice {
  std::optional<uint64_t> pid;
  std::string file_prefix;
  int timeout_s = TelemetryClient::kTimeoutS;
};

// One that is there and does not answer.
struct SilentProcess {
  uint64_t pid = 0;  // 0: not known
  std::string file_prefix;
  std::string reason;  // a line for people
};

struct Processes {
  std::vector<std::unique_ptr<TelemetryClient>> answering;  // by process ID
  std::vector<SilentProcess> silent;
};

// Those that run Pollux, or none. PermissionDenied if another user may change the directory of the
// sockets.
absl::StatusOr<Processes> LookForProcesses(const ProcessChoice& choice);
// The same, but NotFound, in words for people, when none answers.
absl::StatusOr<Processes> FindProcesses(const ProcessChoice& choice);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_TELEMETRY_CLIENT_H_
