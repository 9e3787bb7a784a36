#include "tests/sim/peer.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/sim/connect.h"

namespace pollux::sim {

ibv_qp_attr Peer::DefaultAttr() {
  ibv_qp_attr attr{};
  attr.path_mtu = IBV_MTU_1024;
  attr.qp_access_flags =
      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  attr.sq_psn = attr.rq_psn = 0xFFFFF0;  // wraps soon
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  return attr;
}

void Peer::Create(Node& at, uint32_t max_send_wr, ibv_qp_type type) {
  node = &at;
  engine::Worker& worker = at.worker();
  pd = worker.AllocPd().value();
  cq = worker.CreateCq(2 * max_send_wr).value();
  verbs::QueuePairInitAttr init;
  init.type = type;
  init.pd = pd;
  init.send_cq = init.recv_cq = cq;
  init.cap.max_send_wr = init.cap.max_recv_wr = max_send_wr;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  qp = worker.CreateQp(std::move(init)).value();
}

void Peer::Connect(const Peer& peer, ibv_qp_attr attr) {
  const absl::Status status = BringToRts(*node, qp, *peer.node, peer.qp->qpn(), attr);
  ASSERT_TRUE(status.ok()) << status;
}

}  // namespace pollux::sim
