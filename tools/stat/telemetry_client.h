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

// One process. Questions are answered one at a time, each within kPatienceS.
class TelemetryClient {
 public:
  static constexpr int kPatienceS = 5;

  // Unavailable when nobody listens at `path` any more, DeadlineExceeded when who does takes no
  // more questions. Nothing was asked yet: Greet() comes next.
  static absl::StatusOr<std::unique_ptr<TelemetryClient>> Connect(const std::string& path);
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
};

struct Processes {
  std::vector<std::unique_ptr<TelemetryClient>> answering;  // by process ID
  std::vector<std::string> silent;  // a line for people on each that is there and does not answer
};

// Those that run Pollux. NotFound, in words for people, when none answers.
absl::StatusOr<Processes> FindProcesses(const ProcessChoice& choice);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_STAT_TELEMETRY_CLIENT_H_
