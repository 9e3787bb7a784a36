#include "cm/connection/passive_side.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/connection/flight_text.h"
#include "cm/connection/timeouts.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/service_id.h"

namespace pollux::cm {
namespace {

constexpr uint8_t kTransportRc = 0;
constexpr uint8_t kFailoverUnsupported = 1;  // of Rep::failover_accepted

// The only one there is on RoCE; bit 15 tells full members from limited ones.
bool IsDefaultPartition(uint16_t pkey) { return (pkey & 0x7FFF) == 0x7FFF; }

}  // namespace

void PassiveSide::Handle(const Origin& origin, const Req& req) {
  if (IsDuplicate(origin, req)) return;
  const auto reject = [&](RejectReason reason) {
    parts_.sender.Reject(origin, 0, req.local_comm_id, AboutMessage::kReq, reason);
  };
  if (const auto reason = ReasonToReject(origin, req)) return reject(*reason);
  // A peer that sent packets as large as it asks for would wait for their acknowledgement in vain.
  if (req.path_mtu < IBV_MTU_256 || req.path_mtu > context_.environment->active_mtu()) {
    return parts_.sender.RejectMtu(origin, req.local_comm_id);
  }
  const std::optional<ServiceId> service = ServiceId::FromWire(req.service_id);
  CmConnection* listener = service && service->port_space != RDMA_PS_UDP
                               ? context_.table.ports().FindListener(*service, origin.to)
                               : nullptr;
  if (listener == nullptr) {
    if (parts_.backlog.AwaitListener(origin, service, req) || parts_.others.PassOn(origin, req))
      return;
    return reject(RejectReason::kInvalidServiceId);
  }
  if (parts_.others.SendHome(origin, *listener, req)) return;
  const std::optional<CmaHeader> cma = CmaHeader::Parse(req.private_data);
  if (!cma) return reject(RejectReason::kUnsupportedRequest);
  // Its sender asks again, perhaps when there is room.
  if (!parts_.backlog.HasRoomFor(*listener)) return context_.CountDrop(MadDrop::kBacklogFull);
  // A REQ ends a stale connection only if it would be served otherwise.
  CmConnection* old = context_.table.FindByPeerQpn(origin.from, req.local_ca_guid, req.local_qpn);
  if (old != nullptr && !parts_.teardown.EndStale(*old)) {
    return reject(RejectReason::kStaleConnection);
  }

  parts_.teardown.MakeRoom();
  CmConnection* connection = parts_.backlog.Enter(origin, *listener, cma->source_port);
  if (connection == nullptr) return reject(RejectReason::kNoResources);
  TakeRequest(*connection, req);
  context_.RecordMad(*connection, kFlightMadReceived, Attribute::kReq, 0);
  parts_.events.Deliver(
      *connection,
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

bool PassiveSide::IsDuplicate(const Origin& origin, const Req& req) {
  CmConnection* known =
      context_.table.FindByPeerCommId(origin.from, req.local_ca_guid, req.local_comm_id);
  if (known == nullptr) return false;
  if (known->remote_qpn != req.local_qpn) {
    parts_.sender.Reject(origin, 0, req.local_comm_id, AboutMessage::kReq,
                         RejectReason::kDuplicateLocalCommId);
    return true;
  }
  context_.CountDuplicate(Attribute::kReq);
  switch (known->state) {
    case State::kRepSent:
      parts_.sender.TransmitOutstanding(*known);
      break;
    case State::kDreqSent:
    case State::kTimeWait:
      parts_.sender.Reject(origin, 0, req.local_comm_id, AboutMessage::kReq,
                           RejectReason::kStaleConnection);
      break;
    case State::kReqRcvd:
    case State::kRepPending:
      parts_.mra.AskForTime(*known, kMraServiceTimeout);
      break;
    default:
      break;  // an old copy came late
  }
  return true;
}

std::optional<RejectReason> PassiveSide::ReasonToReject(const Origin& origin,
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

void PassiveSide::TakeRequest(CmConnection& connection, const Req& req) {
  connection.remote_comm_id = req.local_comm_id;
  connection.remote_ca_guid = req.local_ca_guid;
  connection.remote_qpn = req.local_qpn;
  context_.table.IndexPeer(connection);
  connection.max_retries = std::min(req.max_cm_retries, context_.config.max_cm_retries);
  connection.resend_after_ns =
      ResendAfterNs(context_.config.packet_lifetime, req.local_cm_response_timeout);
  connection.send_psn = req.starting_psn;
  connection.path_mtu = static_cast<ibv_mtu>(req.path_mtu);
  connection.traffic_class = req.primary.traffic_class;
  connection.retry_count = req.retry_count;
  connection.rnr_retry_count = req.rnr_retry_count;
  // A queue pair takes 0 for: wait for ever.
  connection.ack_timeout =
      req.primary.ack_timeout != 0 ? req.primary.ack_timeout : OwnAckTimeoutCode(context_.config);
  connection.receive_psn = context_.environment->random().Next32() & Psn::kMask;
  connection.offered_responder_resources = req.initiator_depth;
  connection.offered_initiator_depth = req.responder_resources;
  // Until the user says otherwise in Accept.
  connection.responder_resources = CapReadsAndAtomics(req.initiator_depth);
  connection.initiator_depth = CapReadsAndAtomics(req.responder_resources);
  connection.flow_control = req.flow_control != 0;
  connection.alternate_path_asked = req.alternate.local_gid != Gid{};
  connection.state = State::kReqRcvd;
}

absl::Status PassiveSide::Accept(CmConnection& connection, const ConnectionParam& param) {
  if (connection.state != State::kReqRcvd) {
    return absl::FailedPreconditionError(
        "accept: no connect request waits here; the peer may have given up");
  }
  if (param.private_data.size() > Rep::kPrivateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("accept: ", param.private_data.size(),
                                                   " bytes of private data; a REP has room for ",
                                                   Rep::kPrivateBytes));
  }
  if (absl::Status status = QueuePairs::Take(connection, param); !status.ok()) return status;
  connection.responder_resources = CapReadsAndAtomics(param.responder_resources);
  connection.initiator_depth =
      std::min(CapReadsAndAtomics(param.initiator_depth), connection.offered_initiator_depth);
  connection.min_rnr_timer = param.min_rnr_timer;
  if (param.ack_timeout != 0) {
    connection.ack_timeout = std::min(param.ack_timeout, kMaxTimeoutCode);
  }
  connection.told_qpn = connection.local_qpn;
  parts_.sender.SetOutstanding(connection, BuildRep(connection, param));
  connection.state = State::kRepPending;
  if (connection.binding == QpBinding::kUsers) {
    OnQpReady(connection, absl::OkStatus());
    return absl::OkStatus();
  }
  // The peer may send as soon as it has the REP, so the queue pair receives before.
  parts_.queue_pairs.MoveToRts(
      connection, State::kRepPending,
      [this](CmConnection& one, const absl::Status& status) { OnQpReady(one, status); });
  return absl::OkStatus();
}

Rep PassiveSide::BuildRep(const CmConnection& connection, const ConnectionParam& param) const {
  Rep rep;
  rep.local_comm_id = connection.local_comm_id;
  rep.remote_comm_id = connection.remote_comm_id;
  rep.local_qpn = connection.local_qpn;
  rep.starting_psn = connection.receive_psn;
  // No more than the peer asked for: Linux sets its queue pair to this number, and its device may
  // have fewer.
  rep.responder_resources =
      std::min(connection.responder_resources, connection.offered_responder_resources);
  rep.initiator_depth = connection.initiator_depth;
  rep.target_ack_delay = context_.config.target_ack_delay;
  if (connection.alternate_path_asked) rep.failover_accepted = kFailoverUnsupported;
  rep.flow_control = param.flow_control;
  rep.rnr_retry_count = std::min<uint8_t>(param.rnr_retry_count, 7);
  rep.srq = QueuePairs::HasSrq(connection, param);
  rep.local_ca_guid = context_.environment->ca_guid();
  std::ranges::copy(param.private_data, rep.private_data.begin());
  return rep;
}

void PassiveSide::OnQpReady(CmConnection& connection, const absl::Status& status) {
  parts_.backlog.Leave(connection);
  if (!status.ok()) {
    parts_.teardown.EndWithoutQp(connection, AboutMessage::kReq);
    // Perhaps from inside Accept().
    return parts_.events.Defer(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
  }
  connection.state = State::kRepSent;
  parts_.sender.SendOutstanding(connection);
  const CmConnection* const listener = context_.table.Find(connection.listener_comm_id);
  const bool listens = listener != nullptr && listener->state == State::kListen;
  CmConnection* const victim =
      parts_.half_open.Enter(connection, listens ? listener->max_half_open : UINT32_MAX);
  if (victim != nullptr) parts_.teardown.GiveUpHalfOpen(*victim);
}

absl::Status PassiveSide::Reject(CmConnection& connection, absl::Span<const uint8_t> private_data,
                                 RejectReason reason) {
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
  parts_.sender.Send(PeerOf(connection), rej);
  parts_.backlog.Leave(connection);
  parts_.teardown.EnterClosed(connection);
  return absl::OkStatus();
}

void PassiveSide::Handle(const Origin& origin, const Rtu& rtu) {
  CmConnection* connection = context_.FindFor(origin, rtu.local_comm_id, rtu.remote_comm_id);
  if (connection == nullptr) return;
  if (connection->state == State::kEstablished) return context_.CountDuplicate(Attribute::kRtu);
  if (connection->state != State::kRepSent) return context_.CountDrop(MadDrop::kWrongState);
  connection->timer.Cancel();
  parts_.established.Enter(*connection);
  parts_.events.Deliver(*connection, RDMA_CM_EVENT_ESTABLISHED);
}

void PassiveSide::Notify(CmConnection& connection, ibv_event_type event) {
  if (event != IBV_EVENT_COMM_EST || connection.state != State::kRepSent) return;
  connection.timer.Cancel();
  parts_.established.Enter(connection);
  parts_.events.Defer(connection, RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace pollux::cm
