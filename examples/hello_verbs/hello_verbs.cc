// Two ports of this process, joined by rings. A queue pair on the first writes into memory that the
// second has registered. Needs no root, no hugepages and no NIC.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "stack/base/address.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/clock.h"

namespace {

namespace engine = pollux::engine;

// The status of a control call has a readable message.
void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "hello_verbs: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}
template <class T>
T Check(absl::StatusOr<T> result) {
  Check(result.status());
  return *std::move(result);
}

// One end: a worker, and its objects under the names that libibverbs gives them.
struct End {
  explicit End(engine::Device& of) : device(of), worker(of.worker()) {
    pd = Check(worker.AllocPd());
    cq = Check(worker.CreateCq(16));
    qp = Check(worker.CreateQp({.type = IBV_QPT_RC,
                                .pd = pd,
                                .send_cq = cq,
                                .recv_cq = cq,
                                .cap = {.max_send_wr = 16,
                                        .max_recv_wr = 16,
                                        .max_send_sge = 1,
                                        .max_recv_sge = 1,
                                        .max_inline_data = 0}}));
    region = Check(worker.RegMr(pd, memory.data(), memory.size(),
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  }

  // RESET to INIT, RTR and RTS, as with an adapter. RDMA CM (cm/manager.h) does this for you.
  void Connect(const End& peer) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qpn().value;
    attr.timeout = 14;  // 67 ms
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
    attr.ah_attr = {
        .grh = {.sgid_index = device.gid_index(), .hop_limit = 64}, .is_global = 1, .port_num = 1};
    const pollux::Gid to = peer.device.gid();
    std::copy(to.raw.begin(), to.raw.end(), attr.ah_attr.grh.dgid.raw);
    Move(attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    Move(attr, IBV_QPS_RTR,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER);
    Move(attr, IBV_QPS_RTS,
         IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC);
  }
  void Move(ibv_qp_attr& attr, ibv_qp_state state, int mask) {
    attr.qp_state = state;
    Check(worker.ModifyQp(qp, attr, mask | IBV_QP_STATE));
  }

  engine::Device& device;
  engine::Worker& worker;
  pollux::memory::ProtectionDomain* pd;
  pollux::verbs::CompletionQueue* cq;
  pollux::verbs::QueuePair* qp;
  pollux::memory::MemoryRegion region;
  std::array<char, 64> memory{};
};

}  // namespace

int main() {
  Check(engine::InitEal());
  engine::DeviceOptions first, second;
  first.addresses = {Check(pollux::ParseInterfaceAddress("192.0.2.1/24"))};
  second.addresses = {Check(pollux::ParseInterfaceAddress("192.0.2.2/24"))};
  const engine::Device::Pair devices = Check(engine::Device::OpenPair(first, second));
  End a(*devices.first), b(*devices.second);
  a.Connect(b);
  b.Connect(a);

  // The peer's address and key would travel in a message; here both ends are in one process.
  const std::string text = "hello, verbs";
  std::copy(text.begin(), text.end(), a.memory.begin());
  ibv_sge sge{.addr = reinterpret_cast<uint64_t>(a.memory.data()),
              .length = static_cast<uint32_t>(text.size()),
              .lkey = a.region.key};
  ibv_send_wr wr{};
  wr.wr_id = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(b.memory.data());
  wr.wr.rdma.rkey = b.region.key;
  const ibv_send_wr* bad = nullptr;
  if (const int error = a.qp->PostSend(&wr, &bad); error != 0) return error;

  // A worker does all its work in Poll(), which receives the time. One thread may run several
  // workers.
  const engine::Clock clock;
  ibv_wc wc{};
  while (a.cq->Poll(1, &wc) == 0) {
    a.worker.Poll(clock.NowNs());
    b.worker.Poll(clock.NowNs());
  }
  std::printf("%s: %s\n", ibv_wc_status_str(wc.status), b.memory.data());
  devices.first->Close();
  devices.second->Close();
  return wc.status == IBV_WC_SUCCESS && b.memory.data() == text ? 0 : 1;
}
