#include "tests/sim/connect.h"

#include <algorithm>
#include <utility>

namespace pollux::sim {
namespace {

constexpr int kAttempts = 10;

bool Find(Simulation& simulation, Node& from, Node& to) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    bool done = false, found = false;
    transport::PollContext context = from.worker().poll_context();
    from.interface().Resolve(to.gid(), context, [&](const absl::Status& status) {
      done = true;
      found = status.ok();
    });
    simulation.RunUntil([&] { return done; }, simulation.now_ns() + 10 * Simulation::kSecond);
    if (found) return true;
  }
  return false;
}

}  // namespace

ibv_qp_attr DrawAttributes(Random& random) {
  ibv_qp_attr attr{};
  attr.path_mtu = static_cast<ibv_mtu>(IBV_MTU_256 + random.Below(5));
  attr.max_rd_atomic = attr.max_dest_rd_atomic = static_cast<uint8_t>(1 + random.Below(16));
  attr.min_rnr_timer = static_cast<uint8_t>(1 + random.Below(14));
  attr.timeout = static_cast<uint8_t>(13 + random.Below(3));
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  return attr;
}

void LimitRates(Random& random, Node& node) {
  const uint32_t mbps = 1'000u << random.Below(6);
  node.port().SetQueue({.bits_per_second = mbps * uint64_t{1'000'000},
                        .min_bytes = 1'000,
                        .max_bytes = 20'000,
                        .max_probability = 0.1});
  transport::DcqcnParameters parameters;
  parameters.rpg_max_rate = mbps;
  node.worker().EnableDcqcn(parameters);
}

uint32_t DrawPsn(Random& random) {
  const uint64_t place = random.Below(3);
  if (place == 0) return random.Next32() & Psn::kMask;
  const uint32_t edge = place == 1 ? 0 : Psn::kWindow;
  return (edge - static_cast<uint32_t>(random.Below(400))) & Psn::kMask;
}

bool FindEachOther(Simulation& simulation, Node& a, Node& b) {
  return Find(simulation, a, b) && Find(simulation, b, a);
}

ibv_ah_attr AddressOf(const Node& to) {
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = 1;
  address.grh.hop_limit = 64;
  const Gid destination = to.gid();
  std::copy(destination.raw.begin(), destination.raw.end(), address.grh.dgid.raw);
  return address;
}

absl::Status BringToRts(engine::Worker& worker, verbs::QueuePair* qp, Qpn peer_qpn,
                        ibv_qp_attr attr) {
  const bool rc = qp->type() == IBV_QPT_RC, ud = qp->type() == IBV_QPT_UD;
  attr.port_num = 1;
  attr.dest_qp_num = peer_qpn.value;
  constexpr int kPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  const std::pair<ibv_qp_state, int> steps[] = {
      {IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)},
      {IBV_QPS_RTR, (ud ? 0 : kPath) | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)},
      {IBV_QPS_RTS, IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                              IBV_QP_MAX_QP_RD_ATOMIC
                                        : 0)}};
  for (const auto& [state, mask] : steps) {
    attr.qp_state = state;
    const absl::Status status = worker.ModifyQp(qp, attr, mask | IBV_QP_STATE);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BringToRts(Node& node, verbs::QueuePair* qp, const Node& peer, Qpn peer_qpn,
                        ibv_qp_attr attr) {
  attr.ah_attr = AddressOf(peer);
  return BringToRts(node.worker(), qp, peer_qpn, attr);
}

}  // namespace pollux::sim
