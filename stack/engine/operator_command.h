// What the operator of this host can ask of a process, or tell it, by DPDK telemetry.
#ifndef POLLUX_STACK_ENGINE_OPERATOR_COMMAND_H_
#define POLLUX_STACK_ENGINE_OPERATOR_COMMAND_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "stack/base/stats.h"

namespace pollux::engine {

// While it lives, /pollux/NAME[,PARAMETERS] is answered by who made it. Telemetry's socket is the
// process's user's alone. EAL must be initialised (eal.h).
class OperatorCommand {
 public:
  // On telemetry's thread, one at a time.
  using Answer = std::function<absl::StatusOr<Stats>(std::string_view parameters)>;

  // `name` is no Topic's, and of one that lives at a time. Any thread but telemetry's.
  OperatorCommand(const std::string& name, const std::string& help, Answer answer);
  // Waits for the answer that is being given.
  ~OperatorCommand();
  OperatorCommand(const OperatorCommand&) = delete;
  OperatorCommand& operator=(const OperatorCommand&) = delete;

  // As telemetry does.
  static absl::StatusOr<Stats> Ask(std::string_view name, std::string_view parameters);

 private:
  std::string name_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OPERATOR_COMMAND_H_
