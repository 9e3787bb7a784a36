#include "cm/connection/fake_network.h"

#include <algorithm>

namespace pollux::cm {

void FakeNetwork::Send(const Datagram& datagram) {
  log.push_back(datagram);
  for (int copies = copies_of(datagram); copies > 0; --copies) {
    in_flight_.emplace(now_ns + kFlightNs + delay(datagram), datagram);
  }
}

bool FakeNetwork::PollAll() {
  bool busy = false;
  while (!in_flight_.empty() && in_flight_.begin()->first <= now_ns) {
    const Datagram datagram = in_flight_.begin()->second;
    in_flight_.erase(in_flight_.begin());
    busy = true;
    for (FakeEnvironment* environment : environments_) {
      const Shard shard = environment->shard();
      if (environment->GidIndex(datagram.to) &&
          GsiOwner(datagram.mad, datagram.from, shard.count) == shard.index) {
        environment->Receive(datagram.from, datagram.to, datagram.mad);
      }
    }
  }
  for (FakeEnvironment* environment : environments_) busy |= environment->Poll();
  return busy;
}

uint64_t FakeNetwork::NextEvent() const {
  uint64_t next = in_flight_.empty() ? UINT64_MAX : in_flight_.begin()->first;
  for (const FakeEnvironment* environment : environments_) {
    next = std::min(next, environment->wheel_.NextDeadline());
  }
  return next;
}

bool FakeNetwork::RunUntil(const std::function<bool()>& done, uint64_t for_ns) {
  const uint64_t end_ns = now_ns + for_ns;
  while (!done()) {
    if (PollAll()) continue;
    const uint64_t next = NextEvent();
    if (next == UINT64_MAX) return false;
    if (next > end_ns) {
      now_ns = end_ns;
      return false;
    }
    // A wheel may fire up to a tick late.
    now_ns = std::max(next, now_ns + (1 << engine::TimingWheel::kTickShift));
  }
  return true;
}

int FakeNetwork::CountSent(Attribute attribute) const {
  return static_cast<int>(std::ranges::count_if(log, [&](const Datagram& datagram) {
    return ParseMadHeader(datagram.mad)->attribute == attribute;
  }));
}

std::optional<uint8_t> FakeEnvironment::GidIndex(const Gid& address) const {
  const auto it = std::ranges::find(addresses, address);
  if (it == addresses.end()) return std::nullopt;
  return static_cast<uint8_t>(it - addresses.begin());
}

std::optional<Gid> FakeEnvironment::SourceFor(const Gid& to) const {
  const auto it = std::ranges::find_if(
      addresses, [&](const Gid& address) { return address.IsIpv4() == to.IsIpv4(); });
  return it == addresses.end() ? std::nullopt : std::optional(*it);
}

bool FakeEnvironment::SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) {
  if (queue_full) {
    counters_.Count(MadDrop::kSendQueueFull);
    return false;
  }
  network_->Send({from, to, mad});
  return true;
}

size_t FakeEnvironment::EmitFrame(const Gid&, const Gid&, const MadBuffer& mad,
                                  std::span<uint8_t, kMaxMadFrameBytes> frame) {
  if (!resolvable) return 0;
  std::ranges::copy(mad, frame.begin());
  return mad.size();
}

absl::Status FakeEnvironment::StartResolve(const Gid&, const Gid& to) {
  if (to == Gid{}) return absl::NotFoundError("no route");
  return absl::OkStatus();
}

bool FakeEnvironment::Post(uint32_t to, absl::AnyInvocable<void(Client& manager)> work) {
  if (posts_full) return false;
  for (FakeEnvironment* other : network_->environments_) {
    if (other->address() != address() || other->shard_.index != to) continue;
    other->posts_.push_back(std::move(work));
    break;
  }
  return true;
}

void FakeEnvironment::MoveQp(engine::Worker*, verbs::QueuePair* qp, const QpMove& move,
                             std::shared_ptr<QpLease> lease,
                             absl::AnyInvocable<void(absl::Status)> done) {
  calls_.push_back(
      {std::move(lease), [this, qp, move] { return Execute(qp, move); }, std::move(done)});
}

absl::Status FakeEnvironment::Execute(verbs::QueuePair* qp, const QpMove& move) const {
  // Nothing keeps a queue pair from the error state.
  if (moves_fail && move.steps[0].attr.qp_state != IBV_QPS_ERR) {
    return absl::InternalError("moves fail");
  }
  for (size_t i = 0; i < move.count; ++i) {
    const QpMove::Step& step = move.steps[i];
    if (absl::Status status = qp->Modify(step.attr, step.mask); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status FakeEnvironment::JoinGroup(const Gid& local, const Gid& group) {
  if (join_status.ok()) joined.emplace(local, group);
  return join_status;
}

void FakeEnvironment::LeaveGroup(const Gid& local, const Gid& group) {
  joined.extract({local, group});
}

void FakeEnvironment::AttachGroup(engine::Worker*, verbs::QueuePair* qp, const Gid& group,
                                  bool attach, std::shared_ptr<QpLease> lease,
                                  absl::AnyInvocable<void(absl::Status)> done) {
  const auto work = [this, qp, group, attach] {
    if (!attach) {
      attached.erase({qp, group});
      return absl::OkStatus();
    }
    if (attach_status.ok()) attached.emplace(qp, group);
    return attach_status;
  };
  calls_.push_back({std::move(lease), work, std::move(done)});
}

bool FakeEnvironment::Poll() {
  bool busy = wheel_.Advance(network_->now_ns) > 0;
  if (!moves_held) {
    std::vector<PendingCall> calls = std::exchange(calls_, {});
    busy |= !calls.empty();
    for (PendingCall& call : calls) {
      call.done(call.lease->valid ? call.work() : absl::CancelledError());
    }
  }
  std::vector<absl::AnyInvocable<void(Client&)>> posts = std::exchange(posts_, {});
  busy |= !posts.empty();
  for (auto& post : posts) {
    if (client_ != nullptr) post(*client_);
  }
  if (client_ != nullptr) busy |= client_->OnPoll();
  return busy;
}

}  // namespace pollux::cm
