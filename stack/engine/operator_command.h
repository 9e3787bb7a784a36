// A command that the operator of this host can send to a process through DPDK telemetry.
#ifndef POLLUX_STACK_ENGINE_OPERATOR_COMMAND_H_
#define POLLUX_STACK_ENGINE_OPERATOR_COMMAND_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "stack/base/stats.h"

namespace pollux::engine {

// While this object exists, its handler answers /pollux/NAME[,PARAMETERS]. Only the user that runs
// the process, and root, can reach the telemetry socket. InitEal() must have succeeded.
class OperatorCommand {
 public:
  // Called on the telemetry thread, one call at a time.
  using Handler = std::function<absl::StatusOr<Stats>(std::string_view parameters)>;

  // `name` must differ from every Topic and every other existing command. May be called on any
  // thread but the telemetry thread.
  OperatorCommand(const std::string& name, const std::string& help, Handler handler);
  // Waits until a call in progress has returned.
  ~OperatorCommand();
  OperatorCommand(const OperatorCommand&) = delete;
  OperatorCommand& operator=(const OperatorCommand&) = delete;

  // Runs a command as a telemetry request does. Returns NotFound if there is none of this name.
  static absl::StatusOr<Stats> Ask(std::string_view name, std::string_view parameters);

 private:
  std::string name_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OPERATOR_COMMAND_H_
