#include "cm/worker_environment.h"

#include <utility>

namespace pollux::cm {
namespace {

// As an Ethernet address becomes an EUI-64: the middle filled, the universal bit turned.
uint64_t CaGuid(const MacAddress& mac) {
  const uint8_t eui[8] = {
      static_cast<uint8_t>(mac[0] ^ 0x02), mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5]};
  uint64_t guid = 0;
  for (const uint8_t byte : eui) guid = guid << 8 | byte;
  return guid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerEnvironment>> WorkerEnvironment::Create(
    engine::Worker* worker) {
  std::unique_ptr<WorkerEnvironment> environment(new WorkerEnvironment(worker));
  const absl::StatusOr<Gid> gid = worker->interface().QueryGid(0);
  if (!gid.ok()) return gid.status();
  environment->address_ = *gid;
  environment->ca_guid_ = CaGuid(worker->interface().config().mac);
  absl::StatusOr<std::unique_ptr<Gsi>> gsi = Gsi::Create(worker, &environment->counters_);
  if (!gsi.ok()) return gsi.status();
  environment->gsi_ = *std::move(gsi);
  worker->AddPoller(environment.get());
  return environment;
}

WorkerEnvironment::~WorkerEnvironment() {
  if (gsi_ != nullptr) worker_->RemovePoller(this);
}

bool WorkerEnvironment::Poll(uint64_t /*now_ns*/) {
  bool busy = gsi_->Poll([this](const Gid& from, std::span<const uint8_t> mad) {
    if (client_ != nullptr) client_->OnMad(from, mad);
  });
  if (client_ != nullptr) busy |= client_->OnPoll();
  return busy;
}

void WorkerEnvironment::MoveQp(engine::Worker* owner, verbs::QueuePair* qp, const QpMove& move,
                               std::shared_ptr<QpLease> lease,
                               absl::AnyInvocable<void(absl::Status)> done) {
  worker_->Call(
      *owner,
      [owner, qp, move, lease = std::move(lease)]() -> absl::Status {
        if (!lease->valid) return absl::CancelledError("the identifier is gone");
        for (size_t i = 0; i < move.count; ++i) {
          const QpMove::Step& step = move.steps[i];
          absl::Status status = owner->ModifyQp(qp, step.attr, step.mask);
          if (!status.ok()) return status;
        }
        return absl::OkStatus();
      },
      std::move(done));
}

}  // namespace pollux::cm
