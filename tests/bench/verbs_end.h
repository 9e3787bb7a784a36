// One end of a reliable connection with Pollux's own verbs, connected without CM.
#ifndef POLLUX_TESTS_BENCH_VERBS_END_H_
#define POLLUX_TESTS_BENCH_VERBS_END_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "stack/base/types.h"
#include "stack/engine/device.h"

namespace pollux::bench {

// The information that one end needs about the other; plain bytes, which may come from another
// process.
struct VerbsPeer {
  Gid gid;
  ibv_mtu mtu = IBV_MTU_256;
  Qpn qpn;
  uint64_t memory = 0;  // the buffer for WRITE and READ
  uint32_t rkey = 0;
};

// The attributes of a reliable connection from `own` to a peer, for sim::BringToRts().
ibv_qp_attr ReliableAttributes(engine::Device& own, const Gid& peer, ibv_mtu peer_mtu);
ibv_qp_attr ReliableAttributes(engine::Device& own, engine::Device& peer);

// If a work request has failed, prints the reason and ends the process.
void Check(const ibv_wc& wc);

// Used on the core that polls its worker. Received data is in the first half of the buffer, data to
// be sent in the second.
struct VerbsEnd {
  static constexpr uint32_t kDepth = 256;  // number of sends; there are twice as many receives
  static constexpr uint32_t kBufferBytes = 4u << 20;
  // Completion queues: one for sends and receives, or one for each.
  enum class Queues : uint8_t { kOne, kTwo };

  // The device is not owned and must outlive this object; `its_worker` is one of its workers.
  explicit VerbsEnd(engine::Device* opened) : VerbsEnd(opened, opened->worker()) {}
  VerbsEnd(engine::Device* opened, engine::Worker& its_worker)
      : device(opened), worker(its_worker) {}
  ~VerbsEnd();
  VerbsEnd(const VerbsEnd&) = delete;
  VerbsEnd& operator=(const VerbsEnd&) = delete;

  absl::Status Create(Queues queues = Queues::kOne);
  VerbsPeer ToPeer() const;
  absl::Status Connect(const VerbsPeer& peer);

  // Posts a receive for a message of any size, so that receives left by one measurement can be used
  // by the next.
  void Receive() {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data()), kBufferBytes / 2, region.key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (qp->PostRecv(&wr, nullptr) != 0) std::abort();
  }
  void Post(ibv_wr_opcode opcode, uint32_t bytes, const VerbsPeer& peer, bool signalled) {
    ibv_sge sge{reinterpret_cast<uint64_t>(to_send()), bytes, region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
    wr.wr.rdma.remote_addr = peer.memory;
    wr.wr.rdma.rkey = peer.rkey;
    if (qp->PostSend(&wr, nullptr) != 0) std::abort();
  }
  // Whether no send is outstanding.
  bool idle() const { return qp->sq_head() == qp->sq_tail(); }
  uint8_t* to_send() { return buffer.data() + kBufferBytes / 2; }

  engine::Device* device;
  engine::Worker& worker;
  memory::ProtectionDomain* pd = nullptr;
  verbs::CompletionQueue* cq = nullptr;       // for receives, and with Queues::kOne also for sends
  verbs::CompletionQueue* send_cq = nullptr;  // the same as `cq` with Queues::kOne
  verbs::QueuePair* qp = nullptr;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kBufferBytes, 1);
  memory::MemoryRegion region;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_VERBS_END_H_
