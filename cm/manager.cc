#include "cm/manager.h"

#include "cm/manager_impl.h"
#include "cm/worker_environment.h"

namespace pollux::cm {

absl::StatusOr<std::unique_ptr<Manager>> Manager::Create(engine::Worker* worker,
                                                         const ManagerConfig& config) {
  absl::StatusOr<std::unique_ptr<WorkerEnvironment>> environment =
      WorkerEnvironment::Create(worker);
  if (!environment.ok()) return environment.status();
  return std::make_unique<ManagerImpl>(*std::move(environment), config);
}

}  // namespace pollux::cm
