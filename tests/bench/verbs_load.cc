#include "tests/bench/verbs_load.h"

#include "stack/engine/polling/clock.h"
#include "tests/bench/stream.h"

namespace pollux::bench {

VerbsPair::VerbsPair(Threads threads, unsigned first_cpu)
    : threads_(threads), first_cpu_(first_cpu) {}
VerbsPair::~VerbsPair() = default;

absl::StatusOr<std::unique_ptr<VerbsPair>> VerbsPair::Connect(engine::Device* a, engine::Device* b,
                                                              Threads threads, unsigned first_cpu) {
  std::unique_ptr<VerbsPair> pair(new VerbsPair(threads, first_cpu));
  pair->a_ = std::make_unique<VerbsEnd>(a);
  pair->b_ = std::make_unique<VerbsEnd>(b);
  absl::Status status = pair->a_->Create();
  status.Update(pair->b_->Create());
  if (!status.ok()) return status;
  status.Update(pair->a_->Connect(pair->b_->ToPeer()));
  status.Update(pair->b_->Connect(pair->a_->ToPeer()));
  if (!status.ok()) return status;
  return pair;
}

void VerbsPair::Run(TimedPoller& near, engine::Poller& far) {
  RunTimed({a_->worker, {&a_->qp, 1}}, near, {b_->worker, {&b_->qp, 1}}, far, threads_, first_cpu_);
}

double VerbsPair::SendRoundTripNs(uint32_t bytes, uint64_t rounds, tools::Histogram* each_ns) {
  // Answers each message by one; at the near end that means to send the next.
  struct Echo : TimedPoller {
    Echo(VerbsEnd& own, const VerbsEnd& other, uint32_t length, uint64_t total)
        : end(own), peer(other.ToPeer()), bytes(length), left(total) {}
    bool Poll(uint64_t) override {
      Begin();
      ibv_wc wc[16];
      const int n = end.cq->Poll(16, wc);
      for (int i = 0; i < n; ++i) {
        Check(wc[i]);
        if (wc[i].opcode != IBV_WC_RECV) continue;
        if (each_ns != nullptr) RecordRound();
        if (left == 0) {
          Finish();
          return true;
        }
        --left;
        end.Receive();
        end.Post(IBV_WR_SEND, bytes, peer, false);
      }
      return n > 0;
    }
    void RecordRound() {
      const uint64_t now_ns = clock.NowNs();
      if (last_ns != 0) each_ns->Record(now_ns - last_ns);
      last_ns = now_ns;
    }
    VerbsEnd& end;
    const VerbsPeer peer;
    uint32_t bytes;
    uint64_t left;
    tools::Histogram* each_ns = nullptr;
    const engine::Clock clock{};
    uint64_t last_ns = 0;
  };
  Echo near(*a_, *b_, bytes, rounds - 1), far(*b_, *a_, bytes, rounds);
  near.each_ns = each_ns;
  a_->Receive();
  b_->Receive();
  a_->Post(IBV_WR_SEND, bytes, b_->ToPeer(), false);
  Run(near, far);
  return static_cast<double>(near.elapsed_ns()) / static_cast<double>(rounds);
}

double VerbsPair::PerSecond(ibv_wr_opcode opcode, uint32_t bytes, uint64_t count, uint32_t window) {
  const uint32_t every = window >= 64 ? 16 : 1;
  StreamSender near(*a_, b_->ToPeer(),
                    {.opcode = opcode,
                     .bytes = bytes,
                     .count = count / every * every,
                     .window = window,
                     .every = every});
  StreamReceiver far(*b_);
  if (opcode == IBV_WR_SEND) {
    // Receives stay posted for the next measurement: top up only.
    while (b_->qp->rq_depth() < 2 * VerbsEnd::kDepth) b_->Receive();
  }
  Run(near, far);
  return near.PerSecond();
}

uint64_t VerbsPair::retransmitted() const {
  return a_->worker.counters().retransmitted() + b_->worker.counters().retransmitted();
}

}  // namespace pollux::bench
