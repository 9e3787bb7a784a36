#include "tests/sim/peer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace pollux::sim {

ibv_qp_attr Peer::DefaultAttr() {
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  attr.qp_access_flags =
      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  attr.sq_psn = attr.rq_psn = 0xFFFFF0;  // wraps soon
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  return attr;
}

void Peer::Create(Node& at, uint32_t max_send_wr) {
  node = &at;
  engine::Worker& worker = at.worker();
  pd = worker.AllocPd().value();
  cq = worker.CreateCq(2 * max_send_wr).value();
  verbs::QueuePairInitAttr init;
  init.pd = pd;
  init.send_cq = init.recv_cq = cq;
  init.cap.max_send_wr = max_send_wr;
  init.cap.max_send_sge = 1;
  qp = worker.CreateQp(std::move(init)).value();
}

void Peer::Connect(const Peer& peer, ibv_qp_attr attr) {
  attr.dest_qp_num = peer.qp->qpn().value;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 64;
  const Gid destination = peer.node->gid();
  std::copy(destination.raw.begin(), destination.raw.end(), attr.ah_attr.grh.dgid.raw);
  const std::pair<ibv_qp_state, int> steps[] = {
      {IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
      {IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
      {IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC}};
  for (const auto& [state, mask] : steps) {
    attr.qp_state = state;
    const absl::Status status = node->worker().ModifyQp(qp, attr, mask | IBV_QP_STATE);
    ASSERT_TRUE(status.ok()) << status;
  }
}

}  // namespace pollux::sim
