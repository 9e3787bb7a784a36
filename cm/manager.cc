#include "cm/manager.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/connection/worker_environment.h"
#include "cm/gsi/shard.h"
#include "cm/manager_impl.h"
#include "stack/base/memory_reserve.h"

namespace pollux::cm {

static_assert(Shard::kMaxCount >= 1u << QpnLayout{}.worker_bits);

absl::StatusOr<std::unique_ptr<Manager>> Manager::Create(engine::Worker* worker,
                                                         const ManagerConfig& config) {
  absl::StatusOr<std::vector<std::unique_ptr<Manager>>> made = CreateAll({worker}, config);
  if (!made.ok()) return made.status();
  return std::move(made->front());
}

absl::StatusOr<std::vector<std::unique_ptr<Manager>>> Manager::CreateAll(
    absl::Span<engine::Worker* const> workers, const ManagerConfig& config) {
  if (workers.empty() || workers.size() > Shard::kMaxCount) {
    return absl::InvalidArgumentError(absl::StrCat("connection management on ", workers.size(),
                                                   " workers; 1 to ", Shard::kMaxCount,
                                                   " are possible"));
  }
  MemoryReserve::Install();
  const auto siblings = std::make_shared<WorkerEnvironment::Siblings>();
  siblings->workers.assign(workers.begin(), workers.end());
  siblings->environments.resize(workers.size());
  std::vector<std::unique_ptr<Manager>> made;
  for (uint32_t index = 0; index < workers.size(); ++index) {
    auto environment = WorkerEnvironment::Create(siblings, index);
    if (!environment.ok()) return environment.status();
    made.push_back(std::make_unique<ManagerImpl>(*std::move(environment), config));
  }
  return made;
}

}  // namespace pollux::cm
