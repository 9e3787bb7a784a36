// How connections end: REJ in, DREQ and DREP, time-wait.
#include <cerrno>
#include <utility>
#include <vector>

#include "cm/connection/manager_impl.h"
#include "cm/connection/timeouts.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {

absl::Status ManagerImpl::Disconnect(Id* id) {
  CmConnection& connection = Of(id);
  switch (connection.state) {
    case State::kRepSent:  // the peer may have sent its RTU
    case State::kEstablished:
      StartDisconnect(connection);
      return absl::OkStatus();
    case State::kDreqSent:
      connection.failed = false;  // who asks for the end hears of it
      return absl::OkStatus();
    case State::kTimeWait:
      if (std::exchange(connection.failed, false)) Defer(connection, RDMA_CM_EVENT_DISCONNECTED);
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("disconnect: the identifier is not connected");
  }
}

void ManagerImpl::StartDisconnect(CmConnection& connection) {
  MoveQpToError(connection);
  Dreq dreq;
  dreq.local_comm_id = connection.local_comm_id;
  dreq.remote_comm_id = connection.remote_comm_id;
  dreq.remote_qpn = connection.remote_qpn;
  connection.transaction_id = environment_->random().Next64();
  connection.state = State::kDreqSent;
  SetOutstanding(connection, dreq);
  SendRequest(connection);
}

size_t ManagerImpl::unanswered_disconnects() const {
  size_t count = 0;
  table_.Visit([&](const CmConnection& one) { count += one.state == State::kDreqSent; });
  return count;
}

void ManagerImpl::RepeatDisconnects() { RepeatAll(State::kDreqSent, Attribute::kDreq); }

bool ManagerImpl::SendWaitingDisconnects() {
  std::vector<uint32_t> those;
  table_.Visit([&](const CmConnection& one) {
    if (one.state == State::kDreqSent && one.waits && those.size() < RequestWindow::kMax) {
      those.push_back(one.local_comm_id);
    }
  });
  for (const uint32_t comm_id : those) {
    CmConnection& connection = *table_.Find(comm_id);
    LeaveWindow(connection);
    SendOutstanding(connection);
  }
  return !those.empty();
}

void ManagerImpl::RepeatAnswers() { RepeatAll(State::kTimeWait, Attribute::kDrep); }

void ManagerImpl::RepeatAll(State state, Attribute attribute) {
  std::vector<uint32_t> those;
  table_.Visit([&](const CmConnection& one) {
    if (one.state == state && one.outstanding_attribute == attribute && !one.waits) {
      those.push_back(one.local_comm_id);
    }
  });
  for (const uint32_t comm_id : those) {
    if (!TransmitOutstanding(*table_.Find(comm_id))) continue;
    ++environment_->counters().of(attribute).retries;
  }
}

// As Linux's rdma_cm: each identifier is told and stays its user's to destroy. Listeners at any
// address too, for there is no other device that they could go on with.
void ManagerImpl::OnDeviceGone() {
  device_gone_ = true;
  table_.Visit([this](const CmConnection& connection) {
    if (!connection.destroyed) Defer(connection, RDMA_CM_EVENT_DEVICE_REMOVAL);
  });
}

bool ManagerImpl::EndStale(const Origin& origin, CmConnection& old) {
  if (old.peer().address != origin.from) {
    CountDrop(MadDrop::kWrongPeer);
    return false;
  }
  switch (old.state) {
    case State::kRepPending:
      LeavePending(old);
      [[fallthrough]];
    case State::kReqRcvd:  // which its user has to destroy, and waits for that
      MoveQpToError(old);
      EnterClosed(old);
      Defer(old, RDMA_CM_EVENT_REJECTED, static_cast<int>(RejectReason::kStaleConnection));
      return true;
    case State::kRepRcvd:
      MoveQpToError(old);
      EnterClosed(old);
      Defer(old, RDMA_CM_EVENT_CONNECT_ERROR, -ESTALE);
      return true;
    case State::kRepSent:
      MoveQpToError(old);
      EnterTimeWait(old);
      Defer(old, RDMA_CM_EVENT_REJECTED, static_cast<int>(RejectReason::kStaleConnection));
      return true;
    case State::kDreqSent:  // nobody is left to answer
      EnterTimeWait(old);
      Defer(old, RDMA_CM_EVENT_DISCONNECTED);
      return true;
    case State::kEstablished:
      StartDisconnect(old);
      return false;
    default:
      return false;
  }
}

void ManagerImpl::EnterTimeWait(CmConnection& connection) {
  LeaveWindow(connection);
  connection.state = State::kTimeWait;
  table_.UnindexPeerQpn(connection);
  environment_->wheel().Arm(connection.timer, environment_->now_ns() + time_wait_ns());
}

void ManagerImpl::Handle(const Origin& origin, const Dreq& dreq) {
  Drep drep;
  drep.local_comm_id = dreq.remote_comm_id;
  drep.remote_comm_id = dreq.local_comm_id;
  if (IsForgotten(dreq.remote_comm_id)) {
    CountDrop(MadDrop::kUnknownCommId);
    return Send(origin, drep);  // or its sender would wait in vain
  }
  CmConnection* connection = FindFor(origin, dreq.local_comm_id, dreq.remote_comm_id);
  if (connection == nullptr) return;
  switch (connection->state) {
    case State::kRepSent:  // established, had the RTU not been lost
    case State::kEstablished:
    case State::kDreqSent:
    case State::kTimeWait:
      break;
    default:
      return CountDrop(MadDrop::kWrongState);
  }
  if (dreq.remote_qpn != connection->told_qpn) return CountDrop(MadDrop::kWrongQpn);
  Send(origin, drep);
  if (connection->state == State::kTimeWait) return CountDuplicate(Attribute::kDreq);
  // In kDreqSent the two DREQs have crossed, and the queue pair is in the error state already.
  if (connection->state != State::kDreqSent) MoveQpToError(*connection);
  connection->transaction_id = origin.transaction_id;
  SetOutstanding(*connection, drep);
  EnterTimeWait(*connection);
  Deliver(*connection, RDMA_CM_EVENT_DISCONNECTED);
}

void ManagerImpl::Handle(const Origin& origin, const Drep& drep) {
  CmConnection* connection = FindFor(origin, drep.local_comm_id, drep.remote_comm_id);
  if (connection == nullptr) return;
  if (connection->state == State::kTimeWait) return CountDuplicate(Attribute::kDrep);
  if (connection->state != State::kDreqSent) return CountDrop(MadDrop::kWrongState);
  EnterTimeWait(*connection);
  Deliver(*connection, RDMA_CM_EVENT_DISCONNECTED);
}

CmConnection* ManagerImpl::FindRejected(const Origin& origin, const Rej& rej) {
  const bool by_guid = rej.remote_comm_id == 0 &&
                       rej.reason == static_cast<uint16_t>(RejectReason::kTimeout) &&
                       rej.reject_info_length >= sizeof(uint64_t);
  if (!by_guid) return FindFor(origin, rej.local_comm_id, rej.remote_comm_id);
  CmConnection* connection = table_.FindByPeerCommId(LoadBe64(rej.ari.data()), rej.local_comm_id);
  if (connection == nullptr) {
    // It says nothing of where its REQ went.
    if (!PassOn(origin, rej)) CountDrop(MadDrop::kUnknownCommId);
    return nullptr;
  }
  return FindFor(origin, rej.local_comm_id, connection->local_comm_id);
}

void ManagerImpl::Handle(const Origin& origin, const Rej& rej) {
  CmConnection* connection = FindRejected(origin, rej);
  if (connection == nullptr) return;
  if (connection->state == State::kReqSent && AskWithLowerMtu(origin, *connection, rej)) return;
  switch (connection->state) {
    case State::kRepPending:
      LeavePending(*connection);
      [[fallthrough]];
    case State::kReqRcvd:  // which its user has to destroy, and waits for that
    case State::kReqSent:
    case State::kRepRcvd:
      MoveQpToError(*connection);
      EnterClosed(*connection);
      break;
    case State::kRepSent:
      MoveQpToError(*connection);
      EnterTimeWait(*connection);
      break;
    case State::kEstablished:
      MoveQpToError(*connection);
      [[fallthrough]];
    case State::kDreqSent:
      EnterTimeWait(*connection);
      return Deliver(*connection, RDMA_CM_EVENT_DISCONNECTED);
    default:
      return CountDrop(MadDrop::kWrongState);
  }
  Event rejected{.type = RDMA_CM_EVENT_REJECTED, .status = rej.reason};
  rejected.param.private_data = rej.private_data;
  Deliver(*connection, rejected);
}

}  // namespace pollux::cm
