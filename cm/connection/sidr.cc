#include "cm/connection/sidr.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "cm/connection/timeouts.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/service_id.h"

namespace pollux::cm {
namespace {

constexpr size_t kSidrReqUserBytes = SidrReq::kPrivateBytes - kCmaHeaderBytes;

}  // namespace

absl::Status Sidr::Connect(CmConnection& connection, const ConnectionParam& param) {
  if (connection.state != State::kRouteResolved) {
    return absl::FailedPreconditionError(
        "connect: resolve address and route first; an identifier connects once");
  }
  if (param.private_data.size() > kSidrReqUserBytes) {
    return absl::InvalidArgumentError(absl::StrCat("connect: ", param.private_data.size(),
                                                   " bytes of private data; a SIDR_REQ has room "
                                                   "for ",
                                                   kSidrReqUserBytes));
  }
  SidrReq req;
  req.request_id = connection.local_comm_id;
  req.service_id = ServiceId{connection.port_space(), connection.peer().port}.ToWire();
  const CmaHeader cma{.version = 0,
                      .source_port = connection.local().port,
                      .source = connection.local().address,
                      .destination = connection.peer().address};
  cma.Emit(std::span(req.private_data).first<kCmaHeaderBytes>());
  std::ranges::copy(param.private_data, req.private_data.begin() + kCmaHeaderBytes);
  connection.transaction_id = context_.environment->random().Next64();
  connection.max_retries = context_.config.max_cm_retries;
  connection.resend_after_ns =
      ResendAfterNs(context_.config.packet_lifetime, context_.config.cm_response_timeout);
  connection.state = State::kSidrReqSent;
  parts_.sender.SetOutstanding(connection, req);
  parts_.sender.SendRequest(connection);
  return absl::OkStatus();
}

void Sidr::Handle(const Origin& origin, const SidrReq& req) {
  if (CmConnection* known = context_.table.FindSidr(origin.from, req.request_id)) {
    context_.CountDuplicate(Attribute::kSidrReq);
    // The reply was lost. While the user still thinks there is none: SIDR knows no MRA.
    if (known->state == State::kSidrAnswered) parts_.sender.TransmitOutstanding(*known);
    return;
  }
  const auto reply = [&](SidrStatus status) { ReplyAtOnce(origin, req, status); };
  const std::optional<ServiceId> service = ServiceId::FromWire(req.service_id);
  CmConnection* listener = service && service->port_space == RDMA_PS_UDP
                               ? context_.table.ports().FindListener(*service, origin.to)
                               : nullptr;
  if (listener == nullptr) {
    if (parts_.backlog.AwaitListener(origin, service, req) || parts_.others.PassOn(origin, req))
      return;
    return reply(SidrStatus::kUnsupported);
  }
  if (parts_.others.SendHome(origin, *listener, req)) return;
  const std::optional<CmaHeader> cma = CmaHeader::Parse(req.private_data);
  if (!cma) return reply(SidrStatus::kReject);
  if (!parts_.backlog.HasRoomFor(*listener)) return context_.CountDrop(MadDrop::kBacklogFull);

  parts_.teardown.MakeRoom();
  CmConnection* connection = parts_.backlog.Enter(origin, *listener, cma->source_port);
  if (connection == nullptr) return reply(SidrStatus::kReject);
  connection->remote_comm_id = req.request_id;
  connection->state = State::kSidrReqRcvd;
  context_.table.IndexSidr(*connection);
  const auto user_data = absl::MakeConstSpan(req.private_data).subspan(kCmaHeaderBytes);
  parts_.events.Deliver(*connection, {.type = RDMA_CM_EVENT_CONNECT_REQUEST,
                                      .id = connection,
                                      .listen_id = listener,
                                      .ud = {.private_data = user_data}});
}

void Sidr::ReplyAtOnce(const Origin& origin, const SidrReq& req, SidrStatus status) {
  SidrRep rep;
  rep.request_id = req.request_id;
  rep.status = static_cast<uint8_t>(status);
  rep.service_id = req.service_id;
  parts_.sender.Send(origin, rep);
}

absl::Status Sidr::Reply(CmConnection& connection, SidrStatus status, uint32_t qpn,
                         absl::Span<const uint8_t> private_data) {
  if (connection.state != State::kSidrReqRcvd) {
    return absl::FailedPreconditionError("answer: no request waits here; it is answered once");
  }
  if (private_data.size() > SidrRep::kPrivateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("answer: ", private_data.size(),
                                                   " bytes of private data; a SIDR_REP has room "
                                                   "for ",
                                                   SidrRep::kPrivateBytes));
  }
  SidrRep rep;
  rep.request_id = connection.remote_comm_id;
  rep.status = static_cast<uint8_t>(status);
  rep.service_id = ServiceId{connection.port_space(), connection.local().port}.ToWire();
  if (status == SidrStatus::kOk) {
    rep.qpn = qpn;
    rep.qkey = RDMA_UDP_QKEY;
  }
  std::ranges::copy(private_data, rep.private_data.begin());
  parts_.backlog.Leave(connection);
  connection.state = State::kSidrAnswered;
  // It stays until its user destroys it.
  context_.table.ports().ReleaseClaim(connection);
  parts_.sender.SetOutstanding(connection, rep);
  parts_.sender.TransmitOutstanding(connection);
  return absl::OkStatus();
}

absl::Status Sidr::Accept(CmConnection& connection, const ConnectionParam& param) {
  if (connection.binding != QpBinding::kReady && param.qp_num == 0) {
    return absl::FailedPreconditionError(
        "accept: bind a queue pair and wait until it is bound, or set qp_num to one of your own");
  }
  const bool bound = connection.binding == QpBinding::kReady;
  return Reply(connection, SidrStatus::kOk, bound ? connection.local_qpn : param.qp_num,
               param.private_data);
}

void Sidr::Handle(const Origin& origin, const SidrRep& rep) {
  CmConnection* connection = context_.table.Find(rep.request_id);
  if (connection == nullptr) return context_.CountDrop(MadDrop::kUnknownCommId);
  if (connection->peer().address != origin.from) return context_.CountDrop(MadDrop::kWrongPeer);
  if (connection->port_space() != RDMA_PS_UDP) return context_.CountDrop(MadDrop::kWrongState);
  if (connection->state != State::kSidrReqSent) {
    return connection->state == State::kSidrResolved ? context_.CountDuplicate(Attribute::kSidrRep)
                                                     : context_.CountDrop(MadDrop::kWrongState);
  }
  connection->timer.Cancel();
  connection->state = State::kSidrResolved;
  if (rep.status != static_cast<uint8_t>(SidrStatus::kOk)) {
    return parts_.events.Deliver(*connection, {.type = RDMA_CM_EVENT_UNREACHABLE,
                                               .status = rep.status,
                                               .ud = {.private_data = rep.private_data}});
  }
  UdParam ud;
  ud.private_data = rep.private_data;
  ud.ah_attr.is_global = 1;
  ud.ah_attr.port_num = 1;
  ud.ah_attr.grh.hop_limit = connection->hop_limit;
  ud.ah_attr.grh.traffic_class = connection->traffic_class;
  ud.ah_attr.grh.sgid_index =
      context_.environment->GidIndex(connection->local().address).value_or(0);
  std::ranges::copy(origin.from.raw, ud.ah_attr.grh.dgid.raw);
  ud.qp_num = rep.qpn;
  ud.qkey = rep.qkey;
  parts_.events.Deliver(*connection, {.type = RDMA_CM_EVENT_ESTABLISHED, .ud = ud});
}

}  // namespace pollux::cm
