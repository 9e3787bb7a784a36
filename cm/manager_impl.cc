#include "cm/manager_impl.h"

#include <cerrno>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "cm/connection/flight_text.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {

ManagerImpl::ManagerImpl(std::unique_ptr<Environment> environment, const ManagerConfig& config)
    : parts_(std::move(environment), config, this) {
  context().environment->SetClient(this);
}

ManagerImpl::~ManagerImpl() {
  *context().alive = false;
  context().environment->SetClient(nullptr);
}

absl::StatusOr<Id*> ManagerImpl::CreateId(rdma_port_space port_space, EventHandler handler) {
  if (port_space != RDMA_PS_TCP && port_space != RDMA_PS_UDP && port_space != RDMA_PS_IB) {
    return absl::UnimplementedError(
        absl::StrCat("create identifier: port space 0x", absl::Hex(static_cast<int>(port_space)),
                     " is not supported; use RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IB"));
  }
  parts_.teardown.MakeRoom();
  CmConnection* connection = context().NewConnection();
  if (connection == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("create identifier: all ",
                                                     context().config.max_ids,
                                                     " are in use; raise ManagerConfig::max_ids"));
  }
  connection->handler = std::make_shared<EventHandler>(std::move(handler));
  connection->set_port_space(port_space);
  if (device_gone_) parts_.events.Defer(*connection, RDMA_CM_EVENT_DEVICE_REMOVAL);
  return connection;
}

void ManagerImpl::SetHandler(Id* id, EventHandler handler) {
  Of(id).handler = std::make_shared<EventHandler>(std::move(handler));
}

void ManagerImpl::DestroyId(Id* id) {
  CmConnection& connection = Of(id);
  if (connection.state == State::kReqSent) {
    parts_.events.TellFailure(connection, "given up before the peer has answered");
  }
  connection.destroyed = true;
  parts_.backlog.Leave(connection);
  multicast_.LeaveAll(connection);
  connection.lease->valid = false;
  const auto reject = [&](AboutMessage about) {
    parts_.sender.Reject(PeerOf(connection), connection.local_comm_id, connection.remote_comm_id,
                         about, RejectReason::kConsumerDefined);
  };
  switch (connection.state) {
    case State::kReqSent:
      if (!connection.waits) parts_.sender.RejectTimedOut(connection, AboutMessage::kReq);
      break;
    case State::kReqRcvd:
    case State::kRepPending:
      reject(AboutMessage::kReq);
      break;
    case State::kRepSent:
      reject(AboutMessage::kOther);
      // A REJ is not answered and may be lost; a peer that has sent its RTU hears it from the DREQ.
      parts_.teardown.StartDisconnect(connection);
      return;
    case State::kRepRcvd:
      reject(AboutMessage::kRep);
      break;
    case State::kEstablished:
      parts_.teardown.StartDisconnect(connection);
      return;
    case State::kSidrReqRcvd:
      sidr_.Reply(connection, SidrStatus::kReject, 0, {}).IgnoreError();  // the state allows it
      break;
    case State::kDreqSent:
    case State::kTimeWait:
      return;
    case State::kListen:
      parts_.backlog.ListenerEnded(connection.local().port);
      break;
    default:
      break;
  }
  parts_.teardown.EnterClosed(connection);
}

void ManagerImpl::ReleaseQp(Id* id) {
  CmConnection& connection = Of(id);
  QueuePairs::Release(connection);
  multicast_.OnQpReleased(connection);
  parts_.teardown.OnQpReleased(connection);
}

// As Linux's rdma_cm: each identifier is told and stays its user's to destroy. Listeners at any
// address too, for there is no other device that they could go on with.
void ManagerImpl::OnDeviceGone() {
  device_gone_ = true;
  context().table.Visit([this](const CmConnection& connection) {
    if (!connection.destroyed) parts_.events.Defer(connection, RDMA_CM_EVENT_DEVICE_REMOVAL);
  });
}

void ManagerImpl::OnMad(const Gid& from, const Gid& to, std::span<const uint8_t> mad) {
  parts_.events.DeliverDeferred();  // events keep their order
  parts_.sender.TraceReceived(mad);
  const std::optional<MadHeader> header = ParseMadHeader(mad);
  if (!header) return context().CountDrop(MadDrop::kBadLength);
  if (header->base_version != kMadBaseVersion || header->management_class != kMadClassCm ||
      header->class_version != kMadClassVersionCm || header->method != kMadMethodSend) {
    context().CountDrop(MadDrop::kBadHeader);
    return RejectClassVersion({from, to, header->transaction_id}, *header, mad);
  }
  const std::optional<Mad> parsed = ParseMad(mad);
  if (!parsed) return context().CountDrop(MadDrop::kUnknownAttribute);
  ++context().environment->counters().of(header->attribute).received;
  RecordReceived(from, parsed->message);
  Dispatch({from, to, header->transaction_id}, parsed->message);
}

void ManagerImpl::OnHandover(const Handover& handover) {
  parts_.events.DeliverDeferred();  // events keep their order
  Dispatch({handover.from, handover.to, handover.transaction_id, handover.route}, handover.message);
}

void ManagerImpl::Dispatch(const Origin& origin, const Message& message) {
  std::visit([&](const auto& one) { Handle(origin, one); }, message);
}

void ManagerImpl::RejectClassVersion(const Origin& origin, const MadHeader& header,
                                     std::span<const uint8_t> mad) {
  if (header.base_version != kMadBaseVersion || header.management_class != kMadClassCm ||
      header.class_version == kMadClassVersionCm || header.method != kMadMethodSend ||
      header.attribute != Attribute::kReq) {
    return;
  }
  // Whatever its layout, its sender's ID comes first.
  parts_.sender.Reject(origin, 0, LoadBe32(&mad[kMadHeaderBytes]), AboutMessage::kReq,
                       RejectReason::kInvalidClassVersion);
}

void ManagerImpl::RecordReceived(const Gid& peer, const Message& message) {
  std::visit(
      [&](const auto& received) {
        if constexpr (requires { received.remote_comm_id; }) {
          CmConnection* const connection = context().table.Find(received.remote_comm_id);
          if (connection == nullptr || connection->peer().address != peer) return;
          context().RecordMad(*connection, kFlightMadReceived, received.kAttribute,
                              ReasonOf(received));
        }
      },
      message);
}

CmConnection* ManagerImpl::FindRejected(const Origin& origin, const Rej& rej) {
  const bool by_guid = rej.remote_comm_id == 0 &&
                       rej.reason == static_cast<uint16_t>(RejectReason::kTimeout) &&
                       rej.reject_info_length >= sizeof(uint64_t);
  if (!by_guid) return context().FindFor(origin, rej.local_comm_id, rej.remote_comm_id);
  CmConnection* connection =
      context().table.FindByPeerCommId(origin.from, LoadBe64(rej.ari.data()), rej.local_comm_id);
  if (connection == nullptr) {
    // It says nothing of where its REQ went.
    if (!parts_.others.PassOn(origin, rej)) context().CountDrop(MadDrop::kUnknownCommId);
    return nullptr;
  }
  return connection;
}

void ManagerImpl::Handle(const Origin& origin, const Rej& rej) {
  CmConnection* const connection = FindRejected(origin, rej);
  if (connection == nullptr) return;
  if (connection->state == State::kReqSent &&
      active_side_.AskWithLowerMtu(origin, *connection, rej)) {
    return;
  }
  parts_.teardown.OnRejected(*connection, rej);
}

bool ManagerImpl::Work() {
  bool busy = context().table.FreeRemoved();
  busy |= ServeEarlyRequests();
  busy |= parts_.events.DeliverDeferred();
  busy |= addresses_.Poll();
  return parts_.sender.SendWaiting() || busy;
}

bool ManagerImpl::ServeEarlyRequests() {
  if (!parts_.backlog.AwaitsListeners()) return false;
  const std::vector<HeldRequest> due = parts_.backlog.TakeDue();
  for (const HeldRequest& request : due) {
    Dispatch({request.from, request.to, request.transaction_id}, request.message);
  }
  return !due.empty();
}

void ManagerImpl::OnTimer(CmConnection& connection) {
  switch (connection.state) {
    case State::kResolving:
      return addresses_.OnTimeout(connection);
    case State::kTimeWait:
      return parts_.teardown.OnTimeWaitOver(connection);
    case State::kReqSent:
    case State::kRepSent:
    case State::kDreqSent:
    case State::kSidrReqSent:
      if (!parts_.sender.Retry(connection)) parts_.teardown.OnRetriesUsedUp(connection);
      return;
    default:
      return;
  }
}

}  // namespace pollux::cm
