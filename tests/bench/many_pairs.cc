#include "tests/bench/many_pairs.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

#include "stack/engine/clock.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/verbs_end.h"
#include "tests/sim/connect.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kMaxMessage = 4096;
constexpr uint32_t kReceives = 1024;
constexpr uint32_t kMaxWindow = 256;
constexpr uint32_t kBulk = 1u << 20;
constexpr uint32_t kBulkAtOnce = 4;

}  // namespace

struct ManyPairs::End {
  engine::Device* device;
  engine::Worker& worker;
  memory::ProtectionDomain* pd;
  verbs::CompletionQueue* cq;
  verbs::SharedReceiveQueue* srq;
  std::vector<verbs::QueuePair*> qps;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kBulk, 1);
  memory::MemoryRegion region;

  explicit End(engine::Device* opened)
      : device(opened),
        worker(opened->worker()),
        pd(worker.AllocPd().value()),
        cq(worker.CreateCq(2 * kReceives).value()),
        srq(worker.CreateSrq(pd, {.max_wr = kReceives, .max_sge = 1, .srq_limit = 0}).value()),
        region(worker
                   .RegMr(pd, buffer.data(), buffer.size(),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
                   .value()) {
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
  void Send(verbs::QueuePair& qp, uint32_t bytes, bool signaled, uint64_t wr_id = 0) {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data() + kMaxMessage), bytes, region.key};
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
    if (qp.PostSend(&wr, nullptr) != 0) std::abort();
  }
};

// The end that only receives.
struct ManyPairs::Receiver : engine::Poller {
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
};

// The end of LatenciesBesideBulk that sends.
struct ManyPairs::Mixer : engine::Poller {
  Mixer(End& own, const End& other) : end(own), peer(other), begun_ns(own.qps.size()) {}
  bool Poll(uint64_t) override {
    if (begun_ns[1] == 0) {
      for (uint32_t i = 0; bulk && i < kBulkAtOnce; ++i) Write();
      for (size_t pair = 1; pair < end.qps.size(); ++pair) Send(pair);
    }
    ibv_wc wc[32];
    const int n = end.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) {
      Check(wc[i]);
      if (wc[i].opcode == IBV_WC_RDMA_WRITE) {
        Write();
        continue;
      }
      const auto pair = static_cast<size_t>(wc[i].wr_id);
      latency_ns->Record(clock.NowNs() - begun_ns[pair]);
      if (++done == count) finished.store(true, std::memory_order_release);
      Send(pair);
    }
    return n > 0;
  }
  void Send(size_t pair) {
    begun_ns[pair] = clock.NowNs();
    end.Send(*end.qps[pair], bytes, true, pair);
  }
  void Write() {
    ibv_sge sge{reinterpret_cast<uint64_t>(end.buffer.data()), kBulk, end.region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(peer.buffer.data());
    wr.wr.rdma.rkey = peer.region.key;
    if (end.qps[0]->PostSend(&wr, nullptr) != 0) std::abort();
  }
  End& end;
  const End& peer;
  std::vector<uint64_t> begun_ns;  // by connection
  const engine::Clock clock{};
  tools::Histogram* latency_ns = nullptr;
  uint32_t bytes = 0;
  bool bulk = false;
  uint64_t count = 0, done = 0;
  std::atomic<bool> finished{false};
};

void ManyPairs::LatenciesBesideBulk(uint32_t bytes, uint64_t count, bool bulk,
                                    tools::Histogram* latency_ns) {
  Mixer near(*a_, *b_);
  near.latency_ns = latency_ns;
  near.bytes = bytes;
  near.bulk = bulk;
  near.count = count;
  Receiver far(*b_);
  RunBoth(near, far, near.finished);
}

void ManyPairs::RunBoth(engine::Poller& a, engine::Poller& b, const std::atomic<bool>& finished) {
  a_->worker.AddPoller(&a);
  b_->worker.AddPoller(&b);
  const engine::Clock clock;
  const auto run = [&](engine::Worker& worker) {
    while (!finished.load(std::memory_order_acquire)) worker.Poll(clock.NowNs());
  };
  RunOnTwoCores([&] { run(a_->worker); }, [&] { run(b_->worker); });
  a_->worker.RemovePoller(&a);
  b_->worker.RemovePoller(&b);
}

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
  Receiver far(*b_);
  near.bytes = bytes;
  near.window = window;
  near.burst = burst;
  near.count = count / burst * burst;
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  RunBoth(near, far, near.finished);
  const uint64_t elapsed_ns = clock.NowNs() - start_ns;
  return static_cast<double>(near.count) * 1e9 / static_cast<double>(elapsed_ns);
}

uint64_t ManyPairs::retransmitted() const {
  return a_->worker.counters().retransmitted_pkts + b_->worker.counters().retransmitted_pkts;
}

}  // namespace pollux::bench
