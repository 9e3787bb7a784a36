#include "cm/connection/teardown.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace pollux::cm {
namespace {

Dreq DreqOf(const CmConnection& connection) {
  Dreq dreq;
  dreq.local_comm_id = connection.local_comm_id;
  dreq.remote_comm_id = connection.remote_comm_id;
  dreq.remote_qpn = connection.remote_qpn;
  return dreq;
}

}  // namespace

absl::Status Teardown::Disconnect(CmConnection& connection) {
  switch (connection.state) {
    case State::kRepSent:  // the peer may have sent its RTU
    case State::kEstablished:
      StartDisconnect(connection);
      return absl::OkStatus();
    case State::kDreqSent:
      connection.failed = false;  // who asks for the end hears of it
      return absl::OkStatus();
    case State::kTimeWait:
      if (std::exchange(connection.failed, false))
        events_.Defer(connection, RDMA_CM_EVENT_DISCONNECTED);
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("disconnect: the identifier is not connected");
  }
}

void Teardown::StartDisconnect(CmConnection& connection) {
  half_open_.Leave(connection);
  queue_pairs_.MoveToError(connection);
  connection.transaction_id = context_.environment->random().Next64();
  connection.state = State::kDreqSent;
  sender_.SetOutstanding(connection, DreqOf(connection));
  sender_.SendRequest(connection);
}

void Teardown::KeepDreq(CmConnection& connection) {
  if (context_.dreq_keeper == nullptr) return;
  MadHeader header;
  header.transaction_id = context_.environment->random().Next64();
  header.attribute = Attribute::kDreq;
  MadBuffer mad;
  EmitMad(header, DreqOf(connection), mad);
  std::array<uint8_t, kMaxMadFrameBytes> frame;
  const size_t bytes = context_.environment->EmitFrame(connection.local().address,
                                                       connection.peer().address, mad, frame);
  if (bytes == 0) return;
  connection.kept_dreq = context_.dreq_keeper->Keep(std::span(frame).first(bytes));
}

void Teardown::ForgetDreq(CmConnection& connection) {
  const uint32_t place = std::exchange(connection.kept_dreq, DreqKeeper::kNowhere);
  if (place != DreqKeeper::kNowhere) context_.dreq_keeper->Forget(place);
}

size_t Teardown::unanswered_disconnects() const {
  size_t count = 0;
  context_.table.Visit([&](const CmConnection& one) { count += one.state == State::kDreqSent; });
  return count;
}

bool Teardown::EndStale(CmConnection& old) {
  switch (old.state) {
    case State::kRepPending:
      backlog_.Leave(old);
      [[fallthrough]];
    case State::kReqRcvd:  // which its user has to destroy, and waits for that
      queue_pairs_.MoveToError(old);
      EnterClosed(old);
      events_.Defer(old, RDMA_CM_EVENT_REJECTED, static_cast<int>(RejectReason::kStaleConnection));
      return true;
    case State::kRepRcvd:
      queue_pairs_.MoveToError(old);
      EnterClosed(old);
      events_.Defer(old, RDMA_CM_EVENT_CONNECT_ERROR, -ESTALE);
      return true;
    case State::kRepSent:
      queue_pairs_.MoveToError(old);
      EnterTimeWait(old);
      events_.Defer(old, RDMA_CM_EVENT_REJECTED, static_cast<int>(RejectReason::kStaleConnection));
      return true;
    case State::kDreqSent:  // nobody is left to answer
      EnterTimeWait(old);
      events_.Defer(old, RDMA_CM_EVENT_DISCONNECTED);
      return true;
    case State::kEstablished:
      StartDisconnect(old);
      return false;
    default:
      return false;
  }
}

void Teardown::EnterClosed(CmConnection& connection) {
  ForgetDreq(connection);
  half_open_.Leave(connection);
  sender_.LeaveWindow(connection);
  connection.timer.Cancel();
  connection.state = State::kClosed;
  if (!connection.has_port) context_.table.ports().ReleaseClaim(connection);
  context_.table.UnindexPeer(connection);
  if (!connection.destroyed) return;
  context_.table.Remove(connection);
  context_.environment->Wake();
}

void Teardown::EndWithoutQp(CmConnection& connection, AboutMessage about) {
  sender_.Reject(PeerOf(connection), connection.local_comm_id, connection.remote_comm_id, about,
                 RejectReason::kNoResources);
  queue_pairs_.MoveToError(connection);
  EnterClosed(connection);
}

// Without time-wait, which a flood would fill: a REQ that comes again is a new one.
void Teardown::GiveUpHalfOpen(CmConnection& connection) {
  context_.CountDrop(MadDrop::kHalfOpenFull);
  sender_.RejectTimedOut(connection, AboutMessage::kRep);
  queue_pairs_.MoveToError(connection);
  EnterClosed(connection);
  events_.Defer(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

// A peer that lets connections end without an answer must not keep others out. Each look visits all
// connections, so it forgets many.
void Teardown::MakeRoom() {
  constexpr size_t kAtOnce = 64;
  constexpr uint64_t kFruitlessLookNs = 10'000'000;
  if (!context_.table.is_full() || context_.now_ns() < next_look_ns_) return;
  std::vector<CmConnection*> ended;
  std::map<Gid, size_t> of_address;
  context_.table.Visit([&](const CmConnection& one) {
    if (!one.destroyed) return;
    ended.push_back(context_.table.Find(one.local_comm_id));
    ++of_address[one.peer().address];
  });
  if (ended.empty()) {
    next_look_ns_ = context_.now_ns() + kFruitlessLookNs;
    return;
  }
  const auto most = std::max_element(
      of_address.begin(), of_address.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  if (most->second >= kAtOnce) {
    std::erase_if(ended,
                  [&](const CmConnection* one) { return one->peer().address != most->first; });
  }
  const size_t count = std::min(kAtOnce, ended.size());
  const auto end = ended.begin() + static_cast<ptrdiff_t>(count);
  std::nth_element(ended.begin(), end - 1, ended.end(),
                   [](const CmConnection* one, const CmConnection* other) {
                     return one->created_ns < other->created_ns;
                   });
  std::for_each(ended.begin(), end, [this](CmConnection* one) {
    // Its DREQ still waits for room in the request window and would otherwise never be sent.
    if (one->state == State::kDreqSent && one->waits) sender_.TransmitOutstanding(*one);
    EnterClosed(*one);
  });
}

void Teardown::OnQpReleased(CmConnection& connection) {
  switch (connection.state) {
    case State::kRepPending:  // nothing else would end it: its queue pair is not moved any more
    case State::kRepRcvd:
      backlog_.Leave(connection);
      EndWithoutQp(connection,
                   connection.state == State::kRepRcvd ? AboutMessage::kRep : AboutMessage::kReq);
      break;
    case State::kRepSent:
      // As when it is destroyed: for a peer that waits for the REP, and for one that has sent its
      // RTU.
      sender_.Reject(PeerOf(connection), connection.local_comm_id, connection.remote_comm_id,
                     AboutMessage::kOther, RejectReason::kConsumerDefined);
      connection.failed = true;
      StartDisconnect(connection);
      break;
    default:
      return;
  }
  events_.Defer(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
}

void Teardown::OnRetriesUsedUp(CmConnection& connection) {
  switch (connection.state) {
    case State::kReqSent:
      sender_.RejectTimedOut(connection, AboutMessage::kReq);
      EnterClosed(connection);
      return events_.Deliver(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    case State::kSidrReqSent:
      EnterClosed(connection);
      return events_.Deliver(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    case State::kRepSent:
      sender_.RejectTimedOut(connection, AboutMessage::kRep);
      queue_pairs_.MoveToError(connection);
      EnterTimeWait(connection);
      return events_.Deliver(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    default:
      EnterTimeWait(connection);
      return events_.Deliver(connection, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
  }
}

void Teardown::OnTimeWaitOver(CmConnection& connection) {
  EnterClosed(connection);
  events_.Deliver(connection, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

void Teardown::EnterTimeWait(CmConnection& connection) {
  ForgetDreq(connection);
  half_open_.Leave(connection);
  sender_.LeaveWindow(connection);
  connection.state = State::kTimeWait;
  context_.table.UnindexPeerQpn(connection);
  context_.ArmTimer(connection, context_.time_wait_ns());
}

void Teardown::Handle(const Origin& origin, const Dreq& dreq) {
  Drep drep;
  drep.local_comm_id = dreq.remote_comm_id;
  drep.remote_comm_id = dreq.local_comm_id;
  if (context_.IsForgotten(dreq.remote_comm_id)) {
    context_.CountDrop(MadDrop::kUnknownCommId);
    return sender_.Send(origin, drep);  // or its sender would wait in vain
  }
  CmConnection* connection = context_.FindFor(origin, dreq.local_comm_id, dreq.remote_comm_id);
  if (connection == nullptr) return;
  switch (connection->state) {
    case State::kRepSent:  // established, had the RTU not been lost
    case State::kEstablished:
    case State::kDreqSent:
    case State::kTimeWait:
      break;
    default:
      return context_.CountDrop(MadDrop::kWrongState);
  }
  if (dreq.remote_qpn != connection->told_qpn) return context_.CountDrop(MadDrop::kWrongQpn);
  sender_.Send(origin, drep);
  if (connection->state == State::kTimeWait) return context_.CountDuplicate(Attribute::kDreq);
  // In kDreqSent the two DREQs have crossed, and the queue pair is in the error state already.
  if (connection->state != State::kDreqSent) queue_pairs_.MoveToError(*connection);
  connection->transaction_id = origin.transaction_id;
  sender_.SetOutstanding(*connection, drep);
  EnterTimeWait(*connection);
  events_.Deliver(*connection, RDMA_CM_EVENT_DISCONNECTED);
}

void Teardown::Handle(const Origin& origin, const Drep& drep) {
  CmConnection* connection = context_.FindFor(origin, drep.local_comm_id, drep.remote_comm_id);
  if (connection == nullptr) return;
  if (connection->state == State::kTimeWait) return context_.CountDuplicate(Attribute::kDrep);
  if (connection->state != State::kDreqSent) return context_.CountDrop(MadDrop::kWrongState);
  EnterTimeWait(*connection);
  events_.Deliver(*connection, RDMA_CM_EVENT_DISCONNECTED);
}

void Teardown::OnRejected(CmConnection& connection, const Rej& rej) {
  switch (connection.state) {
    case State::kRepPending:
      backlog_.Leave(connection);
      [[fallthrough]];
    case State::kReqRcvd:  // which its user has to destroy, and waits for that
    case State::kReqSent:
    case State::kRepRcvd:
      queue_pairs_.MoveToError(connection);
      EnterClosed(connection);
      break;
    case State::kRepSent:
      queue_pairs_.MoveToError(connection);
      EnterTimeWait(connection);
      break;
    case State::kEstablished:
      queue_pairs_.MoveToError(connection);
      [[fallthrough]];
    case State::kDreqSent:
      EnterTimeWait(connection);
      return events_.Deliver(connection, RDMA_CM_EVENT_DISCONNECTED);
    default:
      return context_.CountDrop(MadDrop::kWrongState);
  }
  Event rejected{.type = RDMA_CM_EVENT_REJECTED, .status = rej.reason};
  rejected.param.private_data = rej.private_data;
  events_.Deliver(connection, rejected);
}

}  // namespace pollux::cm
