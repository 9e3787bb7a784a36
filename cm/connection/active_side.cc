#include "cm/connection/active_side.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "cm/connection/timeouts.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/service_id.h"

namespace pollux::cm {
namespace {

constexpr size_t kReqUserBytes = Req::kPrivateBytes - kCmaHeaderBytes;

}  // namespace

absl::Status ActiveSide::Connect(CmConnection& connection, const ConnectionParam& param) {
  if (connection.state != State::kRouteResolved) {
    return absl::FailedPreconditionError(
        "connect: resolve address and route first; an identifier connects once");
  }
  if (param.private_data.size() > kReqUserBytes) {
    return absl::InvalidArgumentError(absl::StrCat("connect: ", param.private_data.size(),
                                                   " bytes of private data; a REQ has room for ",
                                                   kReqUserBytes));
  }
  if (absl::Status status = QueuePairs::Take(connection, param); !status.ok()) return status;
  Random& random = context_.environment->random();
  connection.transaction_id = random.Next64();
  connection.receive_psn = random.Next32() & Psn::kMask;
  connection.path_mtu = context_.environment->active_mtu();
  connection.responder_resources = CapReadsAndAtomics(param.responder_resources);
  connection.initiator_depth = CapReadsAndAtomics(param.initiator_depth);
  connection.retry_count = std::min<uint8_t>(param.retry_count, 7);
  connection.min_rnr_timer = param.min_rnr_timer;
  connection.ack_timeout = std::min(param.ack_timeout, kMaxTimeoutCode);
  connection.max_retries = context_.config.max_cm_retries;
  connection.resend_after_ns =
      ResendAfterNs(context_.config.packet_lifetime, context_.config.cm_response_timeout);
  connection.told_qpn = connection.local_qpn;
  connection.state = State::kReqSent;
  parts_.sender.SetOutstanding(connection, BuildReq(connection, param));
  parts_.sender.SendRequest(connection);
  return absl::OkStatus();
}

Req ActiveSide::BuildReq(const CmConnection& connection, const ConnectionParam& param) const {
  Req req;
  req.local_comm_id = connection.local_comm_id;
  req.service_id = ServiceId{connection.port_space(), connection.peer().port}.ToWire();
  req.local_ca_guid = context_.environment->ca_guid();
  req.local_qpn = connection.local_qpn;
  req.responder_resources = connection.responder_resources;
  req.initiator_depth = connection.initiator_depth;
  req.remote_cm_response_timeout = context_.config.cm_response_timeout;
  req.local_cm_response_timeout = context_.config.cm_response_timeout;
  req.flow_control = param.flow_control;
  req.starting_psn = connection.receive_psn;
  req.retry_count = connection.retry_count;
  req.rnr_retry_count = std::min<uint8_t>(param.rnr_retry_count, 7);
  req.srq = QueuePairs::HasSrq(connection, param);
  req.path_mtu = static_cast<uint8_t>(connection.path_mtu);
  req.max_cm_retries = context_.config.max_cm_retries;
  // The permissive LID: on RoCE the GIDs decide.
  req.primary.local_lid = req.primary.remote_lid = 0xFFFF;
  req.primary.local_gid = connection.local().address;
  req.primary.remote_gid = connection.peer().address;
  req.primary.traffic_class = connection.traffic_class;
  req.primary.hop_limit = connection.hop_limit;
  req.primary.ack_timeout =
      connection.ack_timeout != 0 ? connection.ack_timeout : OwnAckTimeoutCode(context_.config);
  const CmaHeader cma{.version = 0,
                      .source_port = connection.local().port,
                      .source = connection.local().address,
                      .destination = connection.peer().address};
  cma.Emit(std::span(req.private_data).first<kCmaHeaderBytes>());
  std::ranges::copy(param.private_data, req.private_data.begin() + kCmaHeaderBytes);
  return req;
}

bool ActiveSide::AskWithLowerMtu(const Origin& origin, CmConnection& connection, const Rej& rej) {
  if (rej.reason != static_cast<uint16_t>(RejectReason::kInvalidMtu)) return false;
  // A REQ that was sent twice is rejected twice; the new one has a transaction of its own.
  if (connection.mtu_lowered && origin.transaction_id != connection.transaction_id) {
    context_.CountDuplicate(Attribute::kRej);
    return true;
  }
  const uint8_t largest = rej.reject_info_length >= 1 ? rej.ari[0] : 0;
  if (connection.mtu_lowered || largest < IBV_MTU_256 || largest >= connection.path_mtu) {
    return false;
  }
  const std::optional<Mad> asked = ParseMad(connection.outstanding);
  if (!asked || !std::holds_alternative<Req>(asked->message)) return false;
  Req req = std::get<Req>(asked->message);
  req.path_mtu = largest;
  connection.path_mtu = static_cast<ibv_mtu>(largest);
  connection.mtu_lowered = true;
  connection.transaction_id = context_.environment->random().Next64();
  parts_.sender.SetOutstanding(connection, req);
  parts_.sender.SendOutstanding(connection);
  return true;
}

void ActiveSide::Handle(const Origin& origin, const Rep& rep) {
  if (context_.IsForgotten(rep.remote_comm_id)) {
    context_.CountDrop(MadDrop::kUnknownCommId);
    // It would wait for an RTU that nobody sends.
    return parts_.sender.Reject(origin, rep.remote_comm_id, rep.local_comm_id, AboutMessage::kRep,
                                RejectReason::kInvalidCommId);
  }
  CmConnection* connection = context_.FindFor(origin, rep.local_comm_id, rep.remote_comm_id);
  if (connection == nullptr) return;
  if (connection->state == State::kEstablished) {
    context_.CountDuplicate(Attribute::kRep);  // the RTU was lost
    return SendRtu(*connection);
  }
  if (connection->state == State::kRepRcvd) {
    context_.CountDuplicate(Attribute::kRep);
    return parts_.mra.AskForTime(*connection, kMraServiceTimeout);
  }
  if (connection->state != State::kReqSent) return context_.CountDrop(MadDrop::kWrongState);

  const auto refuse = [&](RejectReason reason, int status) {
    parts_.sender.Reject(origin, rep.remote_comm_id, rep.local_comm_id, AboutMessage::kRep, reason);
    parts_.queue_pairs.MoveToError(*connection);
    parts_.teardown.EnterClosed(*connection);
    parts_.events.Deliver(*connection, RDMA_CM_EVENT_CONNECT_ERROR, status);
  };
  // Its user has taken the queue pair back (ReleaseQp), perhaps for another one, of which the peer
  // does not know.
  if (connection->binding == QpBinding::kNone || connection->local_qpn != connection->told_qpn) {
    return refuse(RejectReason::kNoResources, -EINVAL);
  }
  if (rep.local_comm_id == 0) return refuse(RejectReason::kInvalidCommId, -EINVAL);
  if (!CanBeConnected(rep.local_qpn)) return refuse(RejectReason::kUnsupportedRequest, -EINVAL);
  CmConnection* old = context_.table.FindByPeerQpn(origin.from, rep.local_ca_guid, rep.local_qpn);
  const bool ended = old == nullptr || parts_.teardown.EndStale(*old);
  if (!ended || context_.table.FindByPeerCommId(origin.from, rep.local_ca_guid,
                                                rep.local_comm_id) != nullptr) {
    return refuse(RejectReason::kStaleConnection, -ESTALE);
  }

  connection->timer.Cancel();
  connection->remote_comm_id = rep.local_comm_id;
  connection->remote_ca_guid = rep.local_ca_guid;
  connection->remote_qpn = rep.local_qpn;
  context_.table.IndexPeer(*connection);
  connection->send_psn = rep.starting_psn;
  connection->initiator_depth = std::min(connection->initiator_depth, rep.responder_resources);
  connection->flow_control = rep.flow_control != 0;
  connection->rnr_retry_count = rep.rnr_retry_count;
  connection->peer_has_srq = rep.srq != 0;
  if (connection->ack_timeout == 0) {
    connection->ack_timeout = AckTimeoutCode(context_.config.packet_lifetime, rep.target_ack_delay);
  }
  connection->peer_private_data = rep.private_data;
  // What the peer offers, for the event; this side's own part stands in the members above.
  connection->offered_responder_resources = rep.initiator_depth;
  connection->offered_initiator_depth = rep.responder_resources;
  connection->state = State::kRepRcvd;
  if (connection->binding == QpBinding::kUsers) {
    return DeliverResponse(*connection, RDMA_CM_EVENT_CONNECT_RESPONSE);
  }
  parts_.queue_pairs.MoveToRts(
      *connection, State::kRepRcvd,
      [this](CmConnection& one, const absl::Status& status) { OnQpReady(one, status); });
}

void ActiveSide::OnQpReady(CmConnection& connection, const absl::Status& status) {
  if (!status.ok()) {
    parts_.teardown.EndWithoutQp(connection, AboutMessage::kRep);
    return parts_.events.Deliver(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
  }
  parts_.established.Enter(connection);
  SendRtu(connection);
  DeliverResponse(connection, RDMA_CM_EVENT_ESTABLISHED);
}

absl::Status ActiveSide::Establish(CmConnection& connection) {
  if (connection.state != State::kRepRcvd || connection.binding != QpBinding::kUsers) {
    return absl::FailedPreconditionError(
        "establish: needs a connect response that has arrived and a queue pair named by qp_num");
  }
  parts_.established.Enter(connection);
  SendRtu(connection);
  return absl::OkStatus();
}

void ActiveSide::DeliverResponse(CmConnection& connection, rdma_cm_event_type type) {
  parts_.events.Deliver(connection,
                        {.type = type,
                         .param = {.private_data = connection.peer_private_data,
                                   .responder_resources = connection.offered_responder_resources,
                                   .initiator_depth = connection.offered_initiator_depth,
                                   .flow_control = connection.flow_control,
                                   .retry_count = 0,
                                   .rnr_retry_count = connection.rnr_retry_count,
                                   .qp_num = connection.remote_qpn,
                                   .srq = connection.peer_has_srq}});
}

void ActiveSide::SendRtu(const CmConnection& connection) {
  Rtu rtu;
  rtu.local_comm_id = connection.local_comm_id;
  rtu.remote_comm_id = connection.remote_comm_id;
  parts_.sender.Send(PeerOf(connection), rtu);
}

}  // namespace pollux::cm
