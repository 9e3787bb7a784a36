#include "tests/bench/many_pairs.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "stack/engine/clock.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/verbs_load.h"
#include "tests/sim/connect.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kMaxMessage = 4096;
constexpr uint32_t kReceives = 1024;
constexpr uint32_t kMaxWindow = 256;

void Check(const ibv_wc& wc) {
  if (wc.status == IBV_WC_SUCCESS) return;
  std::fprintf(stderr, "bench: a work request failed: %s\n", ibv_wc_status_str(wc.status));
  std::abort();
}

}  // namespace

struct ManyPairs::End {
  engine::Device* device;
  engine::Worker& worker;
  memory::ProtectionDomain* pd;
  verbs::CompletionQueue* cq;
  verbs::SharedReceiveQueue* srq;
  std::vector<verbs::QueuePair*> qps;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(2 * kMaxMessage, 1);
  memory::MemoryRegion region;

  explicit End(engine::Device* opened)
      : device(opened),
        worker(opened->worker()),
        pd(worker.AllocPd().value()),
        cq(worker.CreateCq(2 * kReceives).value()),
        srq(worker.CreateSrq(pd, {.max_wr = kReceives, .max_sge = 1, .srq_limit = 0}).value()),
        region(worker.RegMr(pd, buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE).value()) {
    while (srq->depth() < kReceives) PostReceive();
  }
  ~End() {
    for (verbs::QueuePair* qp : qps) worker.DestroyQp(qp).IgnoreError();
    worker.DestroySrq(srq).IgnoreError();
    worker.DestroyCq(cq).IgnoreError();
    worker.DeregMr(region).IgnoreError();
    worker.DeallocPd(pd).IgnoreError();
  }

  absl::Status Create(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      verbs::QueuePairInitAttr init;
      init.pd = pd;
      init.send_cq = init.recv_cq = cq;
      init.srq = srq;
      init.cap.max_send_wr = count == 1 ? kMaxWindow : 32;
      init.cap.max_send_sge = 1;
      absl::StatusOr<verbs::QueuePair*> qp = worker.CreateQp(std::move(init));
      if (!qp.ok()) return qp.status();
      qps.push_back(*qp);
    }
    return absl::OkStatus();
  }
  absl::Status Connect(const End& peer) {
    const ibv_qp_attr attr = ReliableAttributes(*device, *peer.device);
    for (size_t i = 0; i < qps.size(); ++i) {
      const absl::Status status = sim::BringToRts(worker, qps[i], peer.qps[i]->qpn(), attr);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  void PostReceive() {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data()), kMaxMessage, region.key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (srq->PostRecv(&wr, nullptr) != 0) std::abort();
  }
  void Send(verbs::QueuePair& qp, uint32_t bytes, bool signaled) {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data() + kMaxMessage), bytes, region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
    if (qp.PostSend(&wr, nullptr) != 0) std::abort();
  }
};

ManyPairs::ManyPairs() = default;
ManyPairs::~ManyPairs() = default;

absl::StatusOr<std::unique_ptr<ManyPairs>> ManyPairs::Connect(engine::Device* a, engine::Device* b,
                                                              uint32_t count) {
  std::unique_ptr<ManyPairs> pairs(new ManyPairs());
  pairs->a_ = std::make_unique<End>(a);
  pairs->b_ = std::make_unique<End>(b);
  absl::Status status = pairs->a_->Create(count);
  status.Update(pairs->b_->Create(count));
  if (!status.ok()) return status;
  status.Update(pairs->a_->Connect(*pairs->b_));
  status.Update(pairs->b_->Connect(*pairs->a_));
  if (!status.ok()) return status;
  return pairs;
}

double ManyPairs::SendsPerSecond(uint32_t bytes, uint64_t count, uint32_t window, uint32_t burst) {
  struct Sender : engine::Poller {
    explicit Sender(End& own) : end(own) {}
    bool Poll(uint64_t) override {
      ibv_wc wc[32];
      const int n = end.cq->Poll(32, wc);
      for (int i = 0; i < n; ++i) Check(wc[i]);
      done += static_cast<uint64_t>(n) * burst;
      finished.store(done >= count, std::memory_order_release);
      bool posted = false;
      while (sent < count && sent + burst - done <= window) {
        verbs::QueuePair& qp = *end.qps[turn];
        turn = turn + 1 == end.qps.size() ? 0 : turn + 1;
        for (uint32_t i = 1; i <= burst; ++i) end.Send(qp, bytes, i == burst);
        sent += burst;
        posted = true;
      }
      return posted || n > 0;
    }
    End& end;
    uint64_t count = 0, sent = 0, done = 0;
    uint32_t bytes = 0, window = 0, burst = 1;
    size_t turn = 0;
    std::atomic<bool> finished{false};
  } near(*a_);
  struct Receiver : engine::Poller {
    explicit Receiver(End& own) : end(own) {}
    bool Poll(uint64_t) override {
      ibv_wc wc[32];
      const int n = end.cq->Poll(32, wc);
      for (int i = 0; i < n; ++i) {
        Check(wc[i]);
        end.PostReceive();
      }
      return n > 0;
    }
    End& end;
  } far(*b_);
  near.bytes = bytes;
  near.window = window;
  near.burst = burst;
  near.count = count / burst * burst;
  a_->worker.AddPoller(&near);
  b_->worker.AddPoller(&far);
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  const auto run = [&](engine::Worker& worker) {
    while (!near.finished.load(std::memory_order_acquire)) worker.Poll(clock.NowNs());
  };
  RunOnTwoCores([&] { run(a_->worker); }, [&] { run(b_->worker); });
  const uint64_t elapsed_ns = clock.NowNs() - start_ns;
  a_->worker.RemovePoller(&near);
  b_->worker.RemovePoller(&far);
  return static_cast<double>(near.count) * 1e9 / static_cast<double>(elapsed_ns);
}

uint64_t ManyPairs::retransmitted() const {
  return a_->worker.counters().retransmitted_pkts + b_->worker.counters().retransmitted_pkts;
}

}  // namespace pollux::bench
