// Traffic between workers on separate threads, for race detectors. For tests.
#ifndef POLLUX_STACK_ENGINE_LOOP_TRAFFIC_FOR_TEST_H_
#define POLLUX_STACK_ENGINE_LOOP_TRAFFIC_FOR_TEST_H_

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "stack/engine/loop/worker.h"
#include "stack/io/link/link.h"
#include "tests/sim/connect.h"

namespace pollux::engine {

inline constexpr uint32_t kMaxFrame = 4352;
inline constexpr uint32_t kLaneSlots = 1024;
inline constexpr uint32_t kBytes = 8192;  // of a message; several packets
inline constexpr uint32_t kUnderWay = 8;
inline constexpr uint64_t kOperations = 2'000;
inline constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// Passes frames from one thread to another by copying: no worker ever holds a buffer of another
// worker's pool, so that a race detector sees each hand-over. DPDK's own rings and pools are
// compiled without one.
class Lane {
 public:
  struct Slot {
    std::array<uint8_t, kMaxFrame> bytes;
    uint32_t length;
  };
  // Back() returns null if the lane is full, Front() if it is empty.
  Slot* Back() {
    const bool full =
        tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) == kLaneSlots;
    return full ? nullptr : &slots_[tail_.load(std::memory_order_relaxed) % kLaneSlots];
  }
  void Push() { tail_.fetch_add(1, std::memory_order_release); }
  const Slot* Front() const {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    return head == tail_.load(std::memory_order_acquire) ? nullptr : &slots_[head % kLaneSlots];
  }
  void Pop() { head_.fetch_add(1, std::memory_order_release); }

 private:
  std::vector<Slot> slots_ = std::vector<Slot>(kLaneSlots);
  alignas(64) std::atomic<uint32_t> head_{0};
  alignas(64) std::atomic<uint32_t> tail_{0};
};

// A queue of a port: receives from several lanes and sends into one.
class CopyLink : public io::Link {
 public:
  CopyLink(std::vector<Lane*> in, Lane* out) : in_(std::move(in)), out_(out) {}
  void UsePool(rte_mempool* pool) { pool_ = pool; }

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
    uint16_t count = 0;
    for (Lane* lane : in_) {
      for (; count < capacity && lane->Front() != nullptr; ++count) {
        rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
        if (frame == nullptr) return count;
        const Lane::Slot& slot = *lane->Front();
        std::memcpy(rte_pktmbuf_append(frame, static_cast<uint16_t>(slot.length)),
                    slot.bytes.data(), slot.length);
        lane->Pop();
        frames[count] = frame;
      }
    }
    return count;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    for (uint16_t i = 0; i < count; ++i) {
      Lane::Slot* slot = out_->Back();
      if (slot == nullptr) return i;
      slot->length = frames[i]->pkt_len;
      const void* bytes = rte_pktmbuf_read(frames[i], 0, slot->length, slot->bytes.data());
      if (bytes != slot->bytes.data()) std::memcpy(slot->bytes.data(), bytes, slot->length);
      out_->Push();
      rte_pktmbuf_free(frames[i]);
    }
    return count;
  }

 private:
  std::vector<Lane*> in_;
  Lane* out_;
  rte_mempool* pool_ = nullptr;
};

// Runs `work` on the worker's core and waits for its result.
template <class Work>
auto On(Worker& worker, Work work) {
  std::promise<decltype(work())> promise;
  auto future = promise.get_future();
  Actor::Post(worker, [&] { promise.set_value(work()); });
  return future.get();
}

// One end of a connection: sends messages, writes and reads in turn, and receives the peer's. Used
// on its worker's core; what other threads read is atomic.
class End : public Poller {
 public:
  explicit End(Worker& worker)
      : worker_(worker),
        source_(kBytes),
        sink_(kBytes),
        inbox_(kBytes),
        pd_(worker_.AllocPd().value()),
        cq_(worker_.CreateCq(8 * kUnderWay).value()) {
    for (uint32_t i = 0; i < kBytes; ++i) source_[i] = static_cast<uint8_t>(i * 7 + i / 256);
    source_region_ = worker_.RegMr(pd_, source_.data(), kBytes, kAccess).value();
    sink_region_ = worker_.RegMr(pd_, sink_.data(), kBytes, kAccess).value();
    inbox_region_ = worker_.RegMr(pd_, inbox_.data(), kBytes, kAccess).value();
    verbs::QueuePairInitAttr init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = init.cap.max_recv_wr = 2 * kUnderWay;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp_ = worker_.CreateQp(std::move(init)).value();
  }
  ~End() override {
    worker_.RemovePoller(this);
    EXPECT_TRUE(worker_.DestroyQp(qp_).ok());
    EXPECT_TRUE(worker_.DestroyCq(cq_).ok());
    for (const auto& region : {source_region_, sink_region_, inbox_region_}) {
      EXPECT_TRUE(worker_.DeregMr(region).ok());
    }
    EXPECT_TRUE(worker_.DeallocPd(pd_).ok());
  }

  Qpn qpn() const { return qp_->qpn(); }
  // The targets of the peer's WRITEs and READs: all that the peer must know about this end.
  struct Target {
    uint64_t source, inbox;
    uint32_t source_key, inbox_key;
  };
  Target target() const {
    return {reinterpret_cast<uint64_t>(source_.data()), reinterpret_cast<uint64_t>(inbox_.data()),
            source_region_.key, inbox_region_.key};
  }

  bool Start(const Gid& peer, Qpn peer_qpn, const Target& target) {
    peer_ = target;
    ibv_qp_attr attr{};
    attr.path_mtu = IBV_MTU_4096;
    attr.qp_access_flags = kAccess;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.timeout = 20;  // 4.3 s: on a busy machine threads may stall for long
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.raw.data(), peer.raw.size());
    if (!sim::BringToRts(worker_, qp_, peer_qpn, attr).ok()) return false;
    for (uint32_t i = 0; i < kUnderWay; ++i) Receive();
    worker_.AddPoller(this);
    return true;
  }

  // Own operations that have completed successfully.
  uint64_t done() const { return done_.load(std::memory_order_acquire); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  bool Poll(uint64_t) override {
    ibv_wc wc[16];
    const int n = cq_->Poll(16, wc);
    for (int i = 0; i < n; ++i) {
      if (wc[i].status != IBV_WC_SUCCESS) failed_.store(true, std::memory_order_release);
      if (wc[i].opcode == IBV_WC_RECV) {
        Receive();
        continue;
      }
      if (wc[i].opcode == IBV_WC_RDMA_READ && sink_ != source_) failed_.store(true);
      --under_way_;
      done_.fetch_add(1, std::memory_order_release);
    }
    while (posted_ < kOperations && under_way_ < kUnderWay) Send();
    return n > 0;
  }

 private:
  void Receive() {
    ibv_sge sge{reinterpret_cast<uint64_t>(inbox_.data()), kBytes, inbox_region_.key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (qp_->PostRecv(&wr, nullptr) != 0) failed_.store(true, std::memory_order_release);
  }
  void Send() {
    constexpr ibv_wr_opcode kKinds[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    const ibv_wr_opcode opcode = kKinds[posted_++ % 3];
    ++under_way_;
    const bool read = opcode == IBV_WR_RDMA_READ;
    ibv_sge sge{reinterpret_cast<uint64_t>(read ? sink_.data() : source_.data()), kBytes,
                read ? sink_region_.key : source_region_.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = read ? peer_.source : peer_.inbox;
    wr.wr.rdma.rkey = read ? peer_.source_key : peer_.inbox_key;
    if (qp_->PostSend(&wr, nullptr) != 0) failed_.store(true, std::memory_order_release);
  }

  Worker& worker_;
  std::vector<uint8_t> source_, sink_, inbox_;
  memory::ProtectionDomain* pd_;
  verbs::CompletionQueue* cq_;
  verbs::QueuePair* qp_;
  memory::MemoryRegion source_region_, sink_region_, inbox_region_;
  Target peer_{};
  uint64_t posted_ = 0;
  uint32_t under_way_ = 0;
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> failed_{false};
};

// Creates and destroys objects during the traffic, as other connections would.
inline bool MakeAndDestroy(Worker& worker) {
  auto pd = worker.AllocPd();
  auto cq = worker.CreateCq(16);
  if (!pd.ok() || !cq.ok()) return false;
  std::vector<uint8_t> memory(4096);
  auto region = worker.RegMr(*pd, memory.data(), memory.size(), kAccess);
  verbs::QueuePairInitAttr init;
  init.pd = *pd;
  init.send_cq = init.recv_cq = *cq;
  auto qp = worker.CreateQp(std::move(init));
  if (!region.ok() || !qp.ok()) return false;
  Stats stats;
  return worker.Collect({.topic = "worker"}, &stats) && worker.DestroyQp(*qp).ok() &&
         worker.DeregMr(*region).ok() && worker.DestroyCq(*cq).ok() && worker.DeallocPd(*pd).ok();
}

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_TRAFFIC_FOR_TEST_H_
