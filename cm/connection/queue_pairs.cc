#include "cm/connection/queue_pairs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::cm {
namespace {

constexpr uint8_t kNoGidIndex = 255;

// To INIT; of RDMA_PS_UDP with the Q_Key that rdma_cm's datagrams bear.
QpMove::Step ToInit(const CmConnection& connection) {
  const bool ud = connection.port_space() == RDMA_PS_UDP;
  QpMove::Step step;
  step.attr.qp_state = IBV_QPS_INIT;
  step.attr.port_num = 1;
  step.attr.qkey = ud ? RDMA_UDP_QKEY : 0;
  step.mask =
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  return step;
}

QpMove::Step ToRts(const CmConnection& connection) {
  QpMove::Step step;
  step.attr.qp_state = IBV_QPS_RTS;
  step.attr.sq_psn = connection.send_psn;
  step.attr.timeout = connection.ack_timeout;
  step.attr.retry_cnt = connection.retry_count;
  step.attr.rnr_retry = connection.rnr_retry_count;
  step.attr.max_rd_atomic = connection.initiator_depth;
  step.mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
              IBV_QP_MAX_QP_RD_ATOMIC;
  return step;
}

// Who sends to whom is not a datagram queue pair's business.
QpMove::Step UdStep(ibv_qp_state state) {
  QpMove::Step step;
  step.attr.qp_state = state;
  step.mask = IBV_QP_STATE | (state == IBV_QPS_RTS ? IBV_QP_SQ_PSN : 0);
  return step;
}

bool KnowsPeersQp(const CmConnection& connection) {
  switch (connection.state) {
    case State::kReqRcvd:
    case State::kRepPending:
    case State::kRepSent:
    case State::kRepRcvd:
    case State::kEstablished:
      return true;
    default:
      return false;
  }
}

}  // namespace

void QueuePairs::Bind(CmConnection& connection, engine::Worker* owner, verbs::QueuePair* qp,
                      int access, absl::AnyInvocable<void(absl::Status)> done) {
  connection.SetQp(owner, qp);
  connection.local_qpn = qp->qpn().value;
  connection.binding = QpBinding::kMoving;
  QpMove::Step init = ToInit(connection);
  init.attr.qp_access_flags = static_cast<unsigned>(access);
  QpMove move;
  move.Add(init);
  if (connection.port_space() == RDMA_PS_UDP) {
    move.Add(UdStep(IBV_QPS_RTR));
    move.Add(UdStep(IBV_QPS_RTS));
  }
  auto finish = [alive = context_.alive, lease = connection.lease, &connection,
                 done = std::move(done)](absl::Status status) mutable {
    if (!*alive || !lease->valid) return;
    connection.binding = status.ok() ? QpBinding::kReady : QpBinding::kNone;
    done(std::move(status));
  };
  // The user is told later in any case: this is a call of its own.
  if (std::optional<absl::Status> moved = context_.environment->MoveOwnQp(owner, qp, move)) {
    return events_.Defer(connection, [finish = std::move(finish), status = *std::move(moved)](
                                         CmConnection&) mutable { finish(std::move(status)); });
  }
  context_.environment->MoveQp(owner, qp, move, connection.lease, std::move(finish));
}

void QueuePairs::Release(CmConnection& connection) {
  connection.lease->valid = false;
  connection.lease = std::make_shared<QpLease>();
  connection.binding = QpBinding::kNone;
  connection.SetQp(nullptr, nullptr);
}

absl::Status QueuePairs::Take(CmConnection& connection, const ConnectionParam& param) {
  if (connection.binding == QpBinding::kReady) return absl::OkStatus();
  if (connection.binding == QpBinding::kNone && CanBeConnected(param.qp_num)) {
    connection.binding = QpBinding::kUsers;
    connection.local_qpn = param.qp_num;
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "bind a queue pair and wait until it is bound, or set qp_num to one of your own");
}

bool QueuePairs::HasSrq(const CmConnection& connection, const ConnectionParam& param) {
  return connection.binding == QpBinding::kUsers ? param.srq
                                                 : connection.qp()->init().srq != nullptr;
}

QpMove::Step QueuePairs::ToRtr(const CmConnection& connection) const {
  QpMove::Step step;
  ibv_qp_attr& attr = step.attr;
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  // An address that has gone since is an index that ModifyQp refuses.
  attr.ah_attr.grh.sgid_index =
      context_.environment->GidIndex(connection.local().address).value_or(kNoGidIndex);
  attr.ah_attr.grh.hop_limit = connection.hop_limit;
  attr.ah_attr.grh.traffic_class = connection.traffic_class;
  std::ranges::copy(connection.peer().address.raw, attr.ah_attr.grh.dgid.raw);
  attr.path_mtu = connection.path_mtu;
  attr.dest_qp_num = connection.remote_qpn;
  attr.rq_psn = connection.receive_psn;
  attr.max_dest_rd_atomic = connection.responder_resources;
  attr.min_rnr_timer = connection.min_rnr_timer;
  step.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return step;
}

void QueuePairs::MoveToRts(CmConnection& connection, State expected, Done done) {
  QpMove move;
  move.Add(ToRtr(connection));
  move.Add(ToRts(connection));
  if (std::optional<absl::Status> moved =
          context_.environment->MoveOwnQp(connection.qp_owner(), connection.qp(), move)) {
    return done(connection, *std::move(moved));
  }
  context_.environment->MoveQp(connection.qp_owner(), connection.qp(), move, connection.lease,
                               [alive = context_.alive, lease = connection.lease, &connection,
                                expected, done = std::move(done)](absl::Status status) mutable {
                                 if (!*alive || !lease->valid || connection.state != expected)
                                   return;
                                 done(connection, std::move(status));
                               });
}

void QueuePairs::MoveToError(CmConnection& connection) {
  if (connection.destroyed || connection.binding != QpBinding::kReady) return;
  QpMove::Step step;
  step.attr.qp_state = IBV_QPS_ERR;
  step.mask = IBV_QP_STATE;
  QpMove move;
  move.Add(step);
  context_.environment->MoveQp(connection.qp_owner(), connection.qp(), move, connection.lease,
                               [](absl::Status) {});
}

absl::Status QueuePairs::QueryAttr(const CmConnection& connection, ibv_qp_attr* attr,
                                   int* mask) const {
  const ibv_qp_state state = attr->qp_state;
  if (state != IBV_QPS_INIT && state != IBV_QPS_RTR && state != IBV_QPS_RTS) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue pair attributes for state ", static_cast<int>(state),
                     "; connections have them for INIT, RTR and RTS"));
  }
  const bool ud = connection.port_space() == RDMA_PS_UDP;
  if (state != IBV_QPS_INIT && !ud && !KnowsPeersQp(connection)) {
    return absl::FailedPreconditionError(
        "queue pair attributes: the peer's queue pair is not known yet");
  }
  const QpMove::Step step = state == IBV_QPS_INIT  ? ToInit(connection)
                            : ud                   ? UdStep(state)
                            : state == IBV_QPS_RTR ? ToRtr(connection)
                                                   : ToRts(connection);
  *attr = step.attr;
  *mask = step.mask;
  return absl::OkStatus();
}

}  // namespace pollux::cm
