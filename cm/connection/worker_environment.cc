#include "cm/connection/worker_environment.h"

#include <utility>

#include "cm/gsi/mad_process.h"
#include "stack/engine/telemetry.h"
#include "stack/kernel/interface_claims.h"

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

absl::Status Move(engine::Worker* owner, verbs::QueuePair* qp, const QpMove& move) {
  for (size_t i = 0; i < move.count; ++i) {
    const QpMove::Step& step = move.steps[i];
    absl::Status status = owner->ModifyQp(qp, step.attr, step.mask);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void OfferTopics() {
  using Asks = engine::Topic::Asks;
  engine::OfferTopic(
      {"cm", Asks::kWorker, "CM messages sent and received, by name. Parameters: [WORKER]"});
  engine::OfferTopic({"connections", Asks::kWorker,
                      "Communication IDs of connections and listeners. Parameters: "
                      "[WORKER[,AFTER]]"});
  engine::OfferTopic({"connection", Asks::kObject,
                      "A connection or listener. Parameters: COMMUNICATION_ID[,WORKER]"});
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerEnvironment>> WorkerEnvironment::Create(
    std::shared_ptr<Siblings> siblings, uint32_t index) {
  engine::Worker* const worker = siblings->workers[index];
  std::unique_ptr<WorkerEnvironment> environment(new WorkerEnvironment(std::move(siblings), index));
  if (absl::Status status = worker->interface().QueryGid(0).status(); !status.ok()) return status;
  environment->ca_guid_ = CaGuid(worker->interface().config().mac);
  absl::StatusOr<std::unique_ptr<Gsi>> gsi = Gsi::Create(worker, &environment->counters_);
  if (!gsi.ok()) return gsi.status();
  environment->gsi_ = *std::move(gsi);
  environment->gsi_->WakeOnCompletion(&environment->wakeup());
  worker->AddPoller(environment.get());
  worker->AddStatsProvider(environment.get());
  worker->AddPortObserver(environment.get());
  environment->siblings_->environments[index] = environment.get();
  OfferTopics();
  return environment;
}

WorkerEnvironment::~WorkerEnvironment() {
  *alive_ = false;
  if (gsi_ == nullptr) return;
  worker_->RemovePoller(this);
  worker_->RemoveStatsProvider(this);
  worker_->RemovePortObserver(this);
  siblings_->environments[index_] = nullptr;
}

Shard WorkerEnvironment::shard() const {
  Shard shard{.index = index_, .count = static_cast<uint32_t>(siblings_->workers.size())};
  if (claims() != nullptr) shard.process = claims()->process_id();
  return shard;
}

bool WorkerEnvironment::Post(uint32_t to, absl::AnyInvocable<void(Client& manager)> work) {
  if (posts_ == kMaxPosts) return false;
  ++posts_;
  worker_->Call(
      *siblings_->workers[to],
      [siblings = siblings_, to, work = std::move(work)]() mutable {
        const WorkerEnvironment* const there = siblings->environments[to];
        if (there != nullptr && there->client_ != nullptr) work(*there->client_);
      },
      [this, alive = alive_] {
        if (*alive) --posts_;
      });
  return true;
}

void WorkerEnvironment::OnPortEvent(uint8_t /*port_num*/, ibv_event_type event) {
  if (event == IBV_EVENT_DEVICE_FATAL && client_ != nullptr) client_->OnDeviceGone();
}

void WorkerEnvironment::Follow(engine::Worker* owner) {
  std::shared_ptr<FailureRelay>& relay = relays_[owner];
  if (relay != nullptr) return;
  relay = std::make_shared<FailureRelay>(
      worker_, owner,
      [this, alive = alive_](Qpn qpn, ibv_wc_status status,
                             std::vector<transport::FlightEntry> flight) {
        if (*alive && client_ != nullptr) client_->OnQpFailed(qpn, status, std::move(flight));
      });
  engine::Actor::Post(*owner, [owner, weak = std::weak_ptr<FailureRelay>(relay)] {
    owner->AddFailureObserver(weak);
  });
}

bool WorkerEnvironment::Collect(const StatsQuery& query, Stats* stats) {
  return client_ != nullptr && client_->OnStatsQuery(query, stats);
}

std::vector<transport::FlightEntry> WorkerEnvironment::QpFlight(const engine::Worker* owner,
                                                                verbs::QueuePair* qp) const {
  if (owner != worker_) return {};
  return transport::Endpoint::Of(qp)->diagnostics().recorder().Entries();
}

bool WorkerEnvironment::Poll(uint64_t /*now_ns*/) {
  wakeup().Sleep();
  bool busy = gsi_->HasWork() && TakeMads();
  if (client_ != nullptr) busy |= client_->OnPoll();
  if (gsi_->HasWork() || (client_ != nullptr && client_->HasWork())) Wake();
  return busy;
}

bool WorkerEnvironment::TakeMads() {
  return gsi_->Poll([this](const Gid& from, const Gid& to, std::span<const uint8_t> mad) {
    if (claims() != nullptr && !IsForThisProcess(mad, *claims(), now_ns())) return;
    if (client_ != nullptr) client_->OnMad(from, to, mad);
  });
}

std::optional<uint8_t> WorkerEnvironment::GidIndex(const Gid& address) const {
  return worker_->interface().GidIndex(address);
}

std::optional<Gid> WorkerEnvironment::SourceFor(const Gid& to) const {
  const ip::Interface& interface = worker_->interface();
  if (const auto index = interface.SourceIndex(to); index.ok()) {
    const absl::StatusOr<Gid> gid = interface.QueryGid(*index);
    if (gid.ok()) return *gid;
  }
  // There is no way, as StartResolve() will say, or it is a group: any address of its kind.
  for (uint32_t index = 0; index < interface.gid_table_size(); ++index) {
    const absl::StatusOr<Gid> gid = interface.QueryGid(static_cast<int>(index));
    if (gid.ok() && gid->IsIpv4() == to.IsIpv4()) return *gid;
  }
  return std::nullopt;
}

bool WorkerEnvironment::SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) {
  const std::optional<uint8_t> index = GidIndex(from);
  if (!index) {
    counters_.Count(MadDrop::kNoSource);
    return false;
  }
  return gsi_->Send(*index, to, mad);
}

size_t WorkerEnvironment::EmitFrame(const Gid& from, const Gid& to, const MadBuffer& mad,
                                    std::span<uint8_t, kMaxMadFrameBytes> frame) {
  const std::optional<uint8_t> index = GidIndex(from);
  return index ? gsi_->EmitFrame(*index, to, mad, frame.data()) : 0;
}

absl::Status WorkerEnvironment::StartResolve(const Gid& from, const Gid& to) {
  const std::optional<uint8_t> index = GidIndex(from);
  if (!index) return absl::NotFoundError("the device no longer has the local address");
  return gsi_->StartResolve(*index, to);
}

bool WorkerEnvironment::IsResolved(const Gid& from, const Gid& to) {
  const std::optional<uint8_t> index = GidIndex(from);
  return index && gsi_->IsResolved(*index, to);
}

std::optional<absl::Status> WorkerEnvironment::MoveOwnQp(engine::Worker* owner,
                                                         verbs::QueuePair* qp, const QpMove& move) {
  if (owner != worker_) return std::nullopt;
  Follow(owner);
  return Move(owner, qp, move);
}

void WorkerEnvironment::MoveQp(engine::Worker* owner, verbs::QueuePair* qp, const QpMove& move,
                               std::shared_ptr<QpLease> lease,
                               absl::AnyInvocable<void(absl::Status)> done) {
  Follow(owner);
  worker_->Call(
      *owner,
      [owner, qp, move, lease = std::move(lease)]() -> absl::Status {
        if (!lease->valid) return absl::CancelledError("the identifier was destroyed");
        return Move(owner, qp, move);
      },
      std::move(done));
}

uint16_t WorkerEnvironment::VlanOf(const Gid& local) const {
  const std::optional<uint8_t> index = GidIndex(local);
  return index ? worker_->interface().GidVlan(*index) : kNoVlan;
}

absl::Status WorkerEnvironment::JoinGroup(const Gid& local, const Gid& group) {
  transport::PollContext context = worker_->poll_context();
  return worker_->interface().JoinMulticast(group, context, VlanOf(local));
}

void WorkerEnvironment::LeaveGroup(const Gid& local, const Gid& group) {
  transport::PollContext context = worker_->poll_context();
  // It was joined; should its address have gone meanwhile, so has the membership.
  worker_->interface().LeaveMulticast(group, context, VlanOf(local)).IgnoreError();
}

void WorkerEnvironment::AttachGroup(engine::Worker* owner, verbs::QueuePair* qp, const Gid& group,
                                    bool attach, std::shared_ptr<QpLease> lease,
                                    absl::AnyInvocable<void(absl::Status)> done) {
  worker_->Call(
      *owner,
      [owner, qp, group, attach, lease = std::move(lease)]() -> absl::Status {
        if (!lease->valid) return absl::CancelledError("the identifier was destroyed");
        return attach ? owner->AttachMulticast(qp, group) : owner->DetachMulticast(qp, group);
      },
      std::move(done));
}

}  // namespace pollux::cm
