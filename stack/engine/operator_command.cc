#include "stack/engine/operator_command.h"

#include <rte_telemetry.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "stack/engine/telemetry_reply.h"

namespace pollux::engine {
namespace {

// Lives as long as DPDK's telemetry thread: to the end.
struct CommandRegistry {
  std::mutex mutex;
  std::map<std::string, OperatorCommand::Handler, std::less<>> handlers;
};
CommandRegistry& TheCommandRegistry() {
  static auto* const registry = new CommandRegistry();
  return *registry;
}

int OnOperatorCommand(const char* command, const char* parameters, rte_tel_data* data) {
  std::string_view name = command;
  name.remove_prefix(std::min(kTelemetryPrefix.size(), name.size()));
  return ReplyToTelemetry(OperatorCommand::Ask(name, parameters == nullptr ? "" : parameters),
                          data);
}

}  // namespace

OperatorCommand::OperatorCommand(const std::string& name, const std::string& help, Handler handler)
    : name_(name) {
  {
    CommandRegistry& registry = TheCommandRegistry();
    const std::lock_guard lock(registry.mutex);
    registry.handlers.insert_or_assign(name, std::move(handler));
  }
  // One that was here before is there still.
  rte_telemetry_register_cmd(absl::StrCat(std::string(kTelemetryPrefix), name).c_str(),
                             &OnOperatorCommand, help.c_str());
}

OperatorCommand::~OperatorCommand() {
  CommandRegistry& registry = TheCommandRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.handlers.erase(name_);
}

absl::StatusOr<Stats> OperatorCommand::Ask(std::string_view name, std::string_view parameters) {
  CommandRegistry& registry = TheCommandRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.handlers.find(name);
  if (found == registry.handlers.end()) {
    return absl::NotFoundError(absl::StrCat("unknown command ", std::string(name)));
  }
  return found->second(parameters);
}

}  // namespace pollux::engine
