// The side that is connected to: REQ in, REP out, RTU in.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/connection/flight_text.h"
#include "cm/connection/manager_impl.h"
#include "cm/connection/timeouts.h"
#include "cm/wire/service_id.h"

namespace pollux::cm {
namespace {

constexpr uint8_t kTransportRc = 0;
constexpr uint8_t kFailoverUnsupported = 1;  // of Rep::failover_accepted

// The only one there is on RoCE; bit 15 tells full members from limited ones.
bool IsDefaultPartition(uint16_t pkey) { return (pkey & 0x7FFF) == 0x7FFF; }

}  // namespace

void ManagerImpl::Handle(const Origin& origin, const Req& req) {
  if (IsDuplicate(origin, req)) return;
  const auto reject = [&](RejectReason reason) {
    Reject(origin, 0, req.local_comm_id, AboutMessage::kReq, reason);
  };
  CmConnection* old = table_.FindByPeerQpn(req.local_ca_guid, req.local_qpn);
  if (old != nullptr && !EndStale(origin, *old)) return reject(RejectReason::kStaleConnection);
  if (const auto reason = ReasonToReject(origin, req)) return reject(*reason);
  // A peer that sent packets as large as it asks for would wait for their acknowledgement in vain.
  if (req.path_mtu < IBV_MTU_256 || req.path_mtu > environment_->active_mtu()) {
    return RejectMtu(origin, req.local_comm_id);
  }
  const std::optional<ServiceId> service = ServiceId::FromWire(req.service_id);
  CmConnection* listener = service && service->port_space != RDMA_PS_UDP
                               ? table_.ports().FindListener(*service, origin.to)
                               : nullptr;
  if (listener == nullptr) {
    if (AwaitListener(origin, service, req) || PassOn(origin, req)) return;
    return reject(RejectReason::kInvalidServiceId);
  }
  if (SendHome(origin, *listener, req)) return;
  const std::optional<CmaHeader> cma = CmaHeader::Parse(req.private_data);
  if (!cma) return reject(RejectReason::kUnsupportedRequest);
  // Its sender asks again, perhaps when there is room.
  if (!HasRoomFor(*listener)) return CountDrop(MadDrop::kBacklogFull);

  CmConnection* connection = NewPassive(origin, *listener, cma->source_port);
  if (connection == nullptr) return reject(RejectReason::kNoResources);
  TakeRequest(*connection, req);
  RecordMad(*connection, kFlightMadReceived, Attribute::kReq, 0);
  Deliver(*connection,
          {.type = RDMA_CM_EVENT_CONNECT_REQUEST,
           .id = connection,
           .listen_id = listener,
           .param = {.private_data = absl::MakeConstSpan(req.private_data).subspan(kCmaHeaderBytes),
                     .responder_resources = req.initiator_depth,
                     .initiator_depth = req.responder_resources,
                     .flow_control = req.flow_control != 0,
                     .retry_count = req.retry_count,
                     .rnr_retry_count = req.rnr_retry_count,
                     .qp_num = req.local_qpn,
                     .srq = req.srq != 0}});
}

bool ManagerImpl::IsDuplicate(const Origin& origin, const Req& req) {
  CmConnection* known = table_.FindByPeerCommId(req.local_ca_guid, req.local_comm_id);
  if (known == nullptr) return false;
  if (known->peer().address != origin.from) {
    CountDrop(MadDrop::kWrongPeer);
    return true;
  }
  if (known->remote_qpn != req.local_qpn) {
    Reject(origin, 0, req.local_comm_id, AboutMessage::kReq, RejectReason::kDuplicateLocalCommId);
    return true;
  }
  CountDuplicate(Attribute::kReq);
  switch (known->state) {
    case State::kRepSent:
      TransmitOutstanding(*known);
      break;
    case State::kDreqSent:
    case State::kTimeWait:
      Reject(origin, 0, req.local_comm_id, AboutMessage::kReq, RejectReason::kStaleConnection);
      break;
    case State::kReqRcvd:
    case State::kRepPending:
      AskForTime(*known, kMraServiceTimeout);
      break;
    default:
      break;  // an old copy came late
  }
  return true;
}

std::optional<RejectReason> ManagerImpl::ReasonToReject(const Origin& origin,
                                                        const Req& req) const {
  if (req.transport_type != kTransportRc) return RejectReason::kInvalidTransportType;
  if (req.local_comm_id == 0) return RejectReason::kInvalidCommId;
  if (!CanBeConnected(req.local_qpn) || !IsDefaultPartition(req.pkey)) {
    return RejectReason::kUnsupportedRequest;
  }
  // A queue pair sends only where the REQ came from, whatever address the REQ gives.
  if (req.primary.local_gid != origin.from || req.primary.remote_gid != origin.to) {
    return RejectReason::kInvalidGid;
  }
  return std::nullopt;
}

bool ManagerImpl::HasRoomFor(const CmConnection& listener) const {
  return pending_ < config_.max_pending_requests && listener.pending < listener.backlog;
}

CmConnection* ManagerImpl::NewPassive(const Origin& origin, CmConnection& listener,
                                      uint16_t source_port) {
  CmConnection* connection = table_.Add(
      std::make_unique<CmConnection>(this, &ManagerImpl::TimerFired), environment_->random());
  if (connection == nullptr) return nullptr;
  connection->handler = listener.handler;
  connection->set_port_space(listener.port_space());
  connection->mutable_local() = {origin.to, listener.local().port};
  connection->mutable_peer() = {origin.from, source_port};
  connection->transaction_id = origin.transaction_id;
  connection->created_ns = environment_->now_ns();
  connection->listener_comm_id = listener.local_comm_id;
  connection->is_pending = true;
  ++pending_;
  ++listener.pending;
  return connection;
}

void ManagerImpl::TakeRequest(CmConnection& connection, const Req& req) {
  connection.remote_comm_id = req.local_comm_id;
  connection.remote_ca_guid = req.local_ca_guid;
  connection.remote_qpn = req.local_qpn;
  table_.IndexPeer(connection);
  connection.max_retries = req.max_cm_retries;
  connection.resend_after_ns =
      ResendAfterNs(config_.packet_lifetime, req.local_cm_response_timeout);
  connection.send_psn = req.starting_psn;
  connection.path_mtu = static_cast<ibv_mtu>(req.path_mtu);
  connection.traffic_class = req.primary.traffic_class;
  connection.retry_count = req.retry_count;
  connection.rnr_retry_count = req.rnr_retry_count;
  // A queue pair takes 0 for: wait for ever.
  connection.ack_timeout = req.primary.ack_timeout != 0 ? req.primary.ack_timeout : OwnAckTimeout();
  connection.receive_psn = environment_->random().Next32() & Psn::kMask;
  connection.offered_responder_resources = req.initiator_depth;
  connection.offered_initiator_depth = req.responder_resources;
  // Until the user says otherwise in Accept.
  connection.responder_resources = CapReadsAndAtomics(req.initiator_depth);
  connection.initiator_depth = CapReadsAndAtomics(req.responder_resources);
  connection.flow_control = req.flow_control != 0;
  connection.alternate_path_asked = req.alternate.local_gid != Gid{};
  connection.state = State::kReqRcvd;
}

void ManagerImpl::LeavePending(CmConnection& connection) {
  if (!std::exchange(connection.is_pending, false)) return;
  --pending_;
  // Its listener may have gone in between; numbers are not used twice while this one lives, but
  // for chance.
  CmConnection* listener = table_.Find(connection.listener_comm_id);
  if (listener != nullptr && listener->state == State::kListen) --listener->pending;
}

bool ManagerImpl::AwaitListener(const Origin& origin, const std::optional<ServiceId>& service,
                                const Message& request) {
  return service && relisten_grace_.Keep({.from = origin.from,
                                          .to = origin.to,
                                          .transaction_id = origin.transaction_id,
                                          .service = *service,
                                          .message = request},
                                         environment_->now_ns());
}

bool ManagerImpl::ServeEarlyRequests() {
  if (relisten_grace_.empty()) return false;
  const std::vector<HeldRequest> due =
      relisten_grace_.TakeDue(environment_->now_ns(), [this](const HeldRequest& request) {
        return table_.ports().FindListener(request.service, request.to) != nullptr;
      });
  for (const HeldRequest& request : due) {
    const Origin origin{request.from, request.to, request.transaction_id};
    std::visit([&](const auto& message) { Handle(origin, message); }, request.message);
  }
  return !due.empty();
}

absl::Status ManagerImpl::Accept(Id* id, const ConnectionParam& param) {
  CmConnection& connection = Of(id);
  if (connection.port_space() == RDMA_PS_UDP) return AcceptUd(connection, param);
  if (connection.state != State::kReqRcvd) {
    return absl::FailedPreconditionError(
        "accept: no connect request waits here; the peer may have given up");
  }
  if (param.private_data.size() > Rep::kPrivateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("accept: ", param.private_data.size(),
                                                   " bytes of private data; a REP has room for ",
                                                   Rep::kPrivateBytes));
  }
  if (absl::Status status = TakeQp(connection, param); !status.ok()) return status;
  connection.responder_resources = CapReadsAndAtomics(param.responder_resources);
  connection.initiator_depth =
      std::min(CapReadsAndAtomics(param.initiator_depth), connection.offered_initiator_depth);
  connection.min_rnr_timer = param.min_rnr_timer;
  if (param.ack_timeout != 0) {
    connection.ack_timeout = std::min(param.ack_timeout, kMaxTimeoutCode);
  }
  connection.told_qpn = connection.local_qpn;
  SetOutstanding(connection, BuildRep(connection, param));
  connection.state = State::kRepPending;
  if (connection.binding == QpBinding::kUsers) {
    OnPassiveQpReady(connection, absl::OkStatus());
    return absl::OkStatus();
  }
  // The peer may send as soon as it has the REP, so the queue pair receives before.
  MoveQpToRts(connection, State::kRepPending, &ManagerImpl::OnPassiveQpReady);
  return absl::OkStatus();
}

Rep ManagerImpl::BuildRep(const CmConnection& connection, const ConnectionParam& param) const {
  Rep rep;
  rep.local_comm_id = connection.local_comm_id;
  rep.remote_comm_id = connection.remote_comm_id;
  rep.local_qpn = connection.local_qpn;
  rep.starting_psn = connection.receive_psn;
  rep.responder_resources = connection.responder_resources;
  rep.initiator_depth = connection.initiator_depth;
  rep.target_ack_delay = config_.target_ack_delay;
  if (connection.alternate_path_asked) rep.failover_accepted = kFailoverUnsupported;
  rep.flow_control = param.flow_control;
  rep.rnr_retry_count = std::min<uint8_t>(param.rnr_retry_count, 7);
  rep.srq = HasSrq(connection, param);
  rep.local_ca_guid = environment_->ca_guid();
  std::ranges::copy(param.private_data, rep.private_data.begin());
  return rep;
}

void ManagerImpl::OnPassiveQpReady(CmConnection& connection, absl::Status status) {
  LeavePending(connection);
  if (!status.ok()) {
    EndWithoutQp(connection, AboutMessage::kReq);
    return Deliver(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
  }
  connection.state = State::kRepSent;
  SendOutstanding(connection);
}

absl::Status ManagerImpl::Reject(Id* id, absl::Span<const uint8_t> private_data,
                                 RejectReason reason) {
  CmConnection& connection = Of(id);
  if (connection.port_space() == RDMA_PS_UDP) {
    return AnswerUd(connection, SidrStatus::kReject, 0, private_data);
  }
  const bool response =
      connection.state == State::kRepRcvd && connection.binding == QpBinding::kUsers;
  if (connection.state != State::kReqRcvd && !response) {
    return absl::FailedPreconditionError("reject: no connect request or response waits here");
  }
  if (private_data.size() > Rej::kPrivateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("reject: ", private_data.size(),
                                                   " bytes of private data; a REJ has room for ",
                                                   Rej::kPrivateBytes));
  }
  Rej rej;
  rej.local_comm_id = connection.local_comm_id;
  rej.remote_comm_id = connection.remote_comm_id;
  rej.message_rejected = static_cast<uint8_t>(response ? AboutMessage::kRep : AboutMessage::kReq);
  rej.reason = static_cast<uint16_t>(reason);
  std::ranges::copy(private_data, rej.private_data.begin());
  Send(PeerOf(connection), rej);
  LeavePending(connection);
  EnterClosed(connection);
  return absl::OkStatus();
}

void ManagerImpl::Handle(const Origin& origin, const Rtu& rtu) {
  CmConnection* connection = FindFor(origin, rtu.local_comm_id, rtu.remote_comm_id);
  if (connection == nullptr) return;
  if (connection->state == State::kEstablished) return CountDuplicate(Attribute::kRtu);
  if (connection->state != State::kRepSent) return CountDrop(MadDrop::kWrongState);
  connection->timer.Cancel();
  EnterEstablished(*connection);
  Deliver(*connection, RDMA_CM_EVENT_ESTABLISHED);
}

void ManagerImpl::Notify(Id* id, ibv_event_type event) {
  CmConnection& connection = Of(id);
  if (event != IBV_EVENT_COMM_EST || connection.state != State::kRepSent) return;
  connection.timer.Cancel();
  EnterEstablished(connection);
  Defer(connection, RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace pollux::cm
