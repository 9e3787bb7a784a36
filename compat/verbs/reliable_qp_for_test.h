// RC queue pairs that a test creates, and whose state it changes itself.
#ifndef POLLUX_COMPAT_VERBS_RELIABLE_QP_FOR_TEST_H_
#define POLLUX_COMPAT_VERBS_RELIABLE_QP_FOR_TEST_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace pollux::compat {

// For `depth` requests of one element in each queue. librdmacm creates the completion queues unless
// the caller sets them.
inline ibv_qp_init_attr ReliableQp(uint32_t depth) {
  ibv_qp_init_attr init{};
  init.cap = {.max_send_wr = depth,
              .max_recv_wr = depth,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  return init;
}

// The peer of a queue pair, and the attributes of the connection.
struct ReliablePeer {
  uint32_t qpn = 0;
  ibv_gid gid{};
  uint8_t gid_index = 0;  // of this side's address
  unsigned access = 0;    // ibv_access_flags that the peer gets
  uint8_t reads = 0;      // READs, atomics and the like at once, in each direction
  // Unanswered requests are repeated after 4.096 us * 2^timeout (67 ms); 0: never.
  uint8_t timeout = 14;
};

// The queue pair of this number at the same port, which receives its own frames.
inline ReliablePeer PeerAtSamePort(ibv_context* context, uint32_t qpn) {
  ReliablePeer peer{.qpn = qpn};
  if (ibv_query_gid(context, 1, 0, &peer.gid) != 0) peer.gid = {};
  return peer;
}

// Changes the state from RESET to RTR. Returns 0 or an errno.
inline int MoveToRtr(ibv_qp* qp, const ReliablePeer& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = peer.access;
  constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = ibv_modify_qp(qp, &attr, kToInit); error != 0) return error;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qpn;
  attr.max_dest_rd_atomic = peer.reads;
  attr.min_rnr_timer = 1;  // 10 us
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = peer.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp, &attr, kToRtr);
}

// Changes the state from RESET to RTS. Returns 0 or an errno. A SEND waits as long as the peer has
// no receive for it.
inline int MoveToRts(ibv_qp* qp, const ReliablePeer& peer) {
  if (const int error = MoveToRtr(qp, peer); error != 0) return error;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = peer.timeout;
  attr.max_rd_atomic = peer.reads;
  attr.retry_cnt = attr.rnr_retry = 7;
  constexpr int kToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &attr, kToRts);
}

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_RELIABLE_QP_FOR_TEST_H_
