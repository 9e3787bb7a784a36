// Asks running processes by DPDK's telemetry sockets.
#ifndef POLLUX_TOOLS_TELEMETRY_CLIENT_H_
#define POLLUX_TOOLS_TELEMETRY_CLIENT_H_

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

  // Unavailable when nobody listens at `path` any more, DataLoss when who does is no DPDK.
  static absl::StatusOr<std::unique_ptr<TelemetryClient>> Connect(const std::string& path);
  ~TelemetryClient();
  TelemetryClient(const TelemetryClient&) = delete;
  TelemetryClient& operator=(const TelemetryClient&) = delete;

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

// Those that run Pollux, by process ID. NotFound, in words for people, when there is none.
absl::StatusOr<std::vector<std::unique_ptr<TelemetryClient>>> FindProcesses(
    const ProcessChoice& choice);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_TELEMETRY_CLIENT_H_
