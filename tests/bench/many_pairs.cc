#include "tests/bench/many_pairs.h"

#include <infiniband/verbs.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "stack/engine/polling/clock.h"
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

// The end of SendsPerSecond() that sends.
struct ManyPairs::Sender : TimedPoller {
  Sender(End& own, uint32_t length, uint64_t messages, uint32_t at_once, uint32_t in_a_row)
      : end(own),
        bytes(length),
        count(messages / in_a_row * in_a_row),
        window(at_once),
        burst(in_a_row) {}
  bool Poll(uint64_t) override {
    Begin();
    ibv_wc wc[32];
    const int n = end.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) Check(wc[i]);
    done += static_cast<uint64_t>(n) * burst;
    if (done >= count) Finish();
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
  const uint32_t bytes;
  const uint64_t count;
  const uint32_t window, burst;
  uint64_t sent = 0, done = 0;
  size_t turn = 0;
};

// The end of RunMix() that sends.
struct ManyPairs::Mixer : TimedPoller {
  Mixer(End& own, const End& other) : end(own), peer(other), begun_ns(own.qps.size()) {}
  bool Poll(uint64_t) override {
    const bool first = !std::exchange(posted, true);
    if (first) {
      if (mix != Mix::kSmall) {
        for (uint32_t i = 0; i < kBulkAtOnce; ++i) Write();
      }
      if (mix != Mix::kBulk) {
        for (size_t pair = 1; pair < end.qps.size(); ++pair) Send(pair);
      }
    }
    ibv_wc wc[32];
    const int n = end.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) {
      Check(wc[i]);
      if (wc[i].opcode == IBV_WC_RDMA_WRITE) {
        Written();
      } else {
        Sent(static_cast<size_t>(wc[i].wr_id));
      }
    }
    return first || n > 0;
  }
  void Written() {
    if (begun() && !finished()) ++written;
    if (mix == Mix::kBulk) OneDone(written, kBulkAtOnce);
    if (!finished()) Write();
  }
  void Sent(size_t pair) {
    if (begun_ns[pair] != 0 && !finished()) {
      latency_ns->Record(clock.NowNs() - begun_ns[pair]);
      ++sent;
    }
    OneDone(sent, end.qps.size() - 1);
    if (!finished()) Send(pair);
  }
  // `counted` of what says when it is over, of which so many are a round.
  void OneDone(uint64_t counted, uint64_t round) {
    if (++done == round) Begin();
    if (counted == count) Finish();
  }
  void Send(size_t pair) {
    begun_ns[pair] = begun() ? clock.NowNs() : 0;
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
  std::vector<uint64_t> begun_ns;  // by connection; 0: in the first round
  const engine::Clock clock{};
  tools::Histogram* latency_ns = nullptr;
  Mix mix = Mix::kBoth;
  uint32_t bytes = 0;
  bool posted = false;
  uint64_t count = 0;
  uint64_t done = 0;               // of all rounds
  uint64_t sent = 0, written = 0;  // of those that count
};

void ManyPairs::RunMix(Mix mix, uint32_t bytes, uint64_t count, Mixed* mixed) {
  Mixer near(*a_, *b_);
  near.latency_ns = &mixed->latency_ns;
  near.mix = mix;
  near.bytes = bytes;
  near.count = count;
  Run(near);
  mixed->bulk_bytes_per_second = near.PerSecond(near.written) * kBulk;
}

void ManyPairs::Run(TimedPoller& near) {
  Receiver far(*b_);
  RunTimed({a_->worker, a_->qps}, near, {b_->worker, b_->qps}, far);
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
  if (!std::exchange(warm_, true)) {
    Sender once(*a_, bytes, a_->qps.size(), window, 1);
    Run(once);
  }
  Sender near(*a_, bytes, count, window, burst);
  Run(near);
  return near.PerSecond(near.count);
}

uint64_t ManyPairs::retransmitted() const {
  return a_->worker.counters().retransmitted() + b_->worker.counters().retransmitted();
}

}  // namespace pollux::bench
