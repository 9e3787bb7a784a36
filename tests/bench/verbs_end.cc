#include "tests/bench/verbs_end.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/sim/connect.h"

namespace pollux::bench {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

ibv_qp_attr ReliableAttributes(engine::Device& own, const Gid& peer, ibv_mtu peer_mtu) {
  ibv_qp_attr attr{};
  attr.qp_access_flags = kAccess;
  attr.path_mtu = std::min(own.interface().active_mtu(), peer_mtu);
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.timeout = 19;  // 2.1 s: threads that spin on a busy machine stand still for long
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.sgid_index = own.gid_index();
  std::memcpy(attr.ah_attr.grh.dgid.raw, peer.raw.data(), peer.raw.size());
  return attr;
}

ibv_qp_attr ReliableAttributes(engine::Device& own, engine::Device& peer) {
  return ReliableAttributes(own, peer.gid(), peer.interface().active_mtu());
}

void Check(const ibv_wc& wc) {
  if (wc.status == IBV_WC_SUCCESS) return;
  std::fprintf(stderr, "bench: a work request failed: %s\n", ibv_wc_status_str(wc.status));
  std::abort();
}

VerbsEnd::~VerbsEnd() {
  if (qp != nullptr) worker.DestroyQp(qp).IgnoreError();
  if (send_cq != nullptr && send_cq != cq) worker.DestroyCq(send_cq).IgnoreError();
  if (cq != nullptr) worker.DestroyCq(cq).IgnoreError();
  if (region.key != 0) worker.DeregMr(region).IgnoreError();
  if (pd != nullptr) worker.DeallocPd(pd).IgnoreError();
}

absl::Status VerbsEnd::Create(Queues queues) {
  pd = *worker.AllocPd();
  send_cq = cq = *worker.CreateCq(4 * kDepth);
  if (queues == Queues::kTwo) send_cq = *worker.CreateCq(kDepth);
  absl::StatusOr<memory::MemoryRegion> registered =
      worker.RegMr(pd, buffer.data(), buffer.size(), kAccess);
  if (!registered.ok()) return registered.status();
  region = *registered;
  verbs::QueuePairInitAttr init;
  init.pd = pd;
  init.send_cq = send_cq;
  init.recv_cq = cq;
  init.cap = {.max_send_wr = kDepth,
              .max_recv_wr = 2 * kDepth,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  absl::StatusOr<verbs::QueuePair*> made = worker.CreateQp(std::move(init));
  if (made.ok()) qp = *made;
  return made.status();
}

VerbsPeer VerbsEnd::ToPeer() const {
  return {.gid = device->gid(),
          .mtu = device->interface().active_mtu(),
          .qpn = qp->qpn(),
          .memory = reinterpret_cast<uint64_t>(buffer.data()),
          .rkey = region.key};
}

absl::Status VerbsEnd::Connect(const VerbsPeer& peer) {
  return sim::BringToRts(worker, qp, peer.qpn, ReliableAttributes(*device, peer.gid, peer.mtu));
}

}  // namespace pollux::bench
