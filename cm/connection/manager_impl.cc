#include "cm/connection/manager_impl.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/connection/timeouts.h"

namespace pollux::cm {
namespace {

ManagerConfig Sane(ManagerConfig config) {
  config.cm_response_timeout = std::min(config.cm_response_timeout, kMaxTimeoutCode);
  config.packet_lifetime = std::min<uint8_t>(config.packet_lifetime, kMaxTimeoutCode - 1);
  config.max_cm_retries = std::min<uint8_t>(config.max_cm_retries, 15);
  config.target_ack_delay = std::min(config.target_ack_delay, kMaxTimeoutCode);
  return config;
}

}  // namespace

ManagerImpl::ManagerImpl(std::unique_ptr<Environment> environment, const ManagerConfig& config)
    : environment_(std::move(environment)),
      config_(Sane(config)),
      table_(config.max_ids, environment_->shard()) {
  environment_->SetClient(this);
}

ManagerImpl::~ManagerImpl() {
  *alive_ = false;
  environment_->SetClient(nullptr);
}

uint64_t ManagerImpl::time_wait_ns() const {
  return TimeoutNs(static_cast<uint8_t>(config_.packet_lifetime + 1));
}

absl::StatusOr<Id*> ManagerImpl::CreateId(rdma_port_space port_space, EventHandler handler) {
  if (port_space != RDMA_PS_TCP && port_space != RDMA_PS_UDP && port_space != RDMA_PS_IB) {
    return absl::UnimplementedError(
        absl::StrCat("create identifier: port space 0x", absl::Hex(static_cast<int>(port_space)),
                     " is not supported; use RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IB"));
  }
  CmConnection* connection = table_.Add(
      std::make_unique<CmConnection>(this, &ManagerImpl::TimerFired), environment_->random());
  if (connection == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("create identifier: all ", config_.max_ids,
                     " are taken, those in time-wait included; raise ManagerConfig::max_ids"));
  }
  connection->handler = std::make_shared<EventHandler>(std::move(handler));
  connection->set_port_space(port_space);
  connection->created_ns = environment_->now_ns();
  if (device_gone_) Defer(*connection, RDMA_CM_EVENT_DEVICE_REMOVAL);
  return connection;
}

void ManagerImpl::SetHandler(Id* id, EventHandler handler) {
  Of(id).handler = std::make_shared<EventHandler>(std::move(handler));
}

void ManagerImpl::DestroyId(Id* id) {
  CmConnection& connection = Of(id);
  if (connection.state == State::kReqSent) {
    TellFailure(connection, "given up before the peer has answered");
  }
  connection.destroyed = true;
  LeavePending(connection);
  LeaveAll(connection);
  connection.lease->valid = false;
  const Origin origin = PeerOf(connection);
  switch (connection.state) {
    case State::kReqSent:
      if (!connection.waits) RejectTimedOut(connection, AboutMessage::kReq);
      break;
    case State::kReqRcvd:
    case State::kRepPending:
      Reject(origin, connection.local_comm_id, connection.remote_comm_id, AboutMessage::kReq,
             RejectReason::kConsumerDefined);
      break;
    case State::kRepSent:
      Reject(origin, connection.local_comm_id, connection.remote_comm_id, AboutMessage::kOther,
             RejectReason::kConsumerDefined);
      // A REJ is not answered and may be lost; a peer that has sent its RTU hears it from the DREQ.
      StartDisconnect(connection);
      return;
    case State::kRepRcvd:
      Reject(origin, connection.local_comm_id, connection.remote_comm_id, AboutMessage::kRep,
             RejectReason::kConsumerDefined);
      break;
    case State::kEstablished:
      StartDisconnect(connection);
      return;
    case State::kSidrReqRcvd:
      AnswerUd(connection, SidrStatus::kReject, 0, {}).IgnoreError();  // the state allows it
      break;
    case State::kDreqSent:
    case State::kTimeWait:
      return;
    case State::kListen:
      relisten_grace_.ListenerEnded(connection.local().port, environment_->now_ns());
      break;
    default:
      break;
  }
  EnterClosed(connection);
}

// What handlers add is for the next turn, so that a poll ends.
bool ManagerImpl::DeliverDeferred() {
  const bool any = !deferred_.empty();
  for (size_t n = deferred_.size(); n > 0; --n) {
    const Deferred event = deferred_.front();
    deferred_.pop_front();
    CmConnection* connection = table_.Find(event.comm_id);
    if (connection == nullptr) continue;
    if (event.type == RDMA_CM_EVENT_MULTICAST_JOIN) {
      OnJoined(*connection, event.group, absl::OkStatus());
    } else {
      Deliver(*connection, event.type, event.status);
    }
  }
  return any;
}

bool ManagerImpl::Work() {
  bool busy = table_.FreeRemoved();
  busy |= ServeEarlyRequests();
  busy |= DeliverDeferred();
  for (size_t i = 0; i < resolving_.size();) {
    CmConnection* connection = table_.Find(resolving_[i]);
    const bool waits = connection != nullptr && connection->state == State::kResolving;
    if (waits &&
        !environment_->IsResolved(connection->local().address, connection->peer().address)) {
      ++i;
      continue;
    }
    resolving_.erase(resolving_.begin() + static_cast<ptrdiff_t>(i));
    busy = true;
    if (!waits) continue;
    connection->timer.Cancel();
    connection->state = State::kAddressResolved;
    Deliver(*connection, RDMA_CM_EVENT_ADDR_RESOLVED);
  }
  return SendWaiting() || busy;
}

void ManagerImpl::Deliver(CmConnection& connection, Event event) {
  if (connection.destroyed) return;
  if (connection.failed && event.type == RDMA_CM_EVENT_DISCONNECTED) return;
  RecordEvent(connection, event);
  if (event.id == nullptr) event.id = &connection;
  // Held, since the handler may replace itself.
  const std::shared_ptr<EventHandler> handler = connection.handler;
  (*handler)(event);
}

void ManagerImpl::Deliver(CmConnection& connection, rdma_cm_event_type type, int status) {
  Deliver(connection, {.type = type, .status = status});
}

void ManagerImpl::Defer(const CmConnection& connection, rdma_cm_event_type type, int status) {
  deferred_.push_back({connection.local_comm_id, type, status, {}});
}

void ManagerImpl::EnterClosed(CmConnection& connection) {
  LeaveWindow(connection);
  connection.timer.Cancel();
  connection.state = State::kClosed;
  table_.UnindexPeer(connection);
  if (connection.destroyed) table_.Remove(connection);
}

void ManagerImpl::TimerFired(void* connection, uint64_t /*now_ns*/) {
  auto& expired = *static_cast<CmConnection*>(connection);
  expired.manager->OnTimer(expired);
}

void ManagerImpl::WindowTimerFired(void* manager, uint64_t /*now_ns*/) {
  static_cast<ManagerImpl*>(manager)->SendWaiting();
}

void ManagerImpl::OnTimer(CmConnection& connection) {
  switch (connection.state) {
    case State::kResolving:
      connection.state = State::kIdle;
      return Deliver(connection, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    case State::kTimeWait:
      EnterClosed(connection);
      return Deliver(connection, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    case State::kReqSent:
    case State::kRepSent:
    case State::kDreqSent:
    case State::kSidrReqSent:
      if (connection.retries_left == 0) return OnRetriesUsedUp(connection);
      --connection.retries_left;
      if (SendOutstanding(connection)) {
        ++environment_->counters().of(connection.outstanding_attribute).retries;
      }
      return;
    default:
      return;
  }
}

void ManagerImpl::OnRetriesUsedUp(CmConnection& connection) {
  switch (connection.state) {
    case State::kReqSent:
      RejectTimedOut(connection, AboutMessage::kReq);
      EnterClosed(connection);
      return Deliver(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    case State::kSidrReqSent:
      EnterClosed(connection);
      return Deliver(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    case State::kRepSent:
      RejectTimedOut(connection, AboutMessage::kRep);
      MoveQpToError(connection);
      EnterTimeWait(connection);
      return Deliver(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    default:
      EnterTimeWait(connection);
      return Deliver(connection, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
  }
}

}  // namespace pollux::cm
