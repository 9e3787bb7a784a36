#include "tests/bench/verbs_load.h"

#include <atomic>

#include "stack/engine/clock.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/one_thread.h"

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

// Polls both workers until the first's poller says that it is done, and the other's a while more,
// so that nothing is left to be sent again.
void VerbsPair::RunBoth(engine::Poller& a, engine::Poller& b, const bool& finished) {
  a_->worker.AddPoller(&a);
  b_->worker.AddPoller(&b);
  if (threads_ == Threads::kOne) {
    TakeTurns(a_->worker, b_->worker, finished);
  } else {
    const engine::Clock clock;
    std::atomic<bool> stop{false};
    RunOnTwoCores(
        [&] {
          while (!finished) a_->worker.Poll(clock.NowNs());
          stop.store(true, std::memory_order_release);
        },
        [&] {
          while (!stop.load(std::memory_order_acquire)) b_->worker.Poll(clock.NowNs());
        },
        first_cpu_);
  }
  a_->worker.RemovePoller(&a);
  b_->worker.RemovePoller(&b);
}

double VerbsPair::SendRoundTripNs(uint32_t bytes, uint64_t rounds, tools::Histogram* each_ns) {
  // Answers each message by one; at the near end that means to send the next.
  struct Echo : engine::Poller {
    Echo(VerbsEnd& own, const VerbsEnd& other, uint32_t length, uint64_t total)
        : end(own), peer(other.ToPeer()), bytes(length), left(total) {}
    bool Poll(uint64_t) override {
      ibv_wc wc[16];
      const int n = end.cq->Poll(16, wc);
      for (int i = 0; i < n; ++i) {
        Check(wc[i]);
        if (wc[i].opcode != IBV_WC_RECV) continue;
        if (each_ns != nullptr) RecordRound();
        if (left == 0) {
          finished = true;
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
    bool finished = false;
    tools::Histogram* each_ns = nullptr;
    const engine::Clock clock{};
    uint64_t last_ns = 0;
  };
  Echo near(*a_, *b_, bytes, rounds - 1), far(*b_, *a_, bytes, rounds);
  near.each_ns = each_ns;
  a_->Receive();
  b_->Receive();
  a_->Post(IBV_WR_SEND, bytes, b_->ToPeer(), false);
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  RunBoth(near, far, near.finished);
  const uint64_t elapsed_ns = clock.NowNs() - start_ns;
  return static_cast<double>(elapsed_ns) / static_cast<double>(rounds);
}

double VerbsPair::PerSecond(ibv_wr_opcode opcode, uint32_t bytes, uint64_t count, uint32_t window) {
  struct Sender : engine::Poller {
    Sender(VerbsEnd& own, const VerbsEnd& other) : end(own), peer(other.ToPeer()) {}
    bool Poll(uint64_t) override {
      ibv_wc wc[32];
      const int n = end.cq->Poll(32, wc);
      for (int i = 0; i < n; ++i) {
        Check(wc[i]);
        done += every;
      }
      if (done >= count) finished = true;
      bool posted = false;
      while (sent < count && sent - done < window) {
        // One completion for a batch; the last of all is signalled in any case.
        end.Post(opcode, bytes, peer, ++sent % every == 0);
        posted = true;
      }
      return posted || n > 0;
    }
    VerbsEnd& end;
    const VerbsPeer peer;
    ibv_wr_opcode opcode{};
    uint32_t bytes = 0, window = 0, every = 1;
    uint64_t count = 0, sent = 0, done = 0;
    bool finished = false;
  };
  struct Receiver : engine::Poller {
    explicit Receiver(VerbsEnd& own) : end(own) {}
    bool Poll(uint64_t) override {
      ibv_wc wc[32];
      const int n = end.cq->Poll(32, wc);
      for (int i = 0; i < n; ++i) {
        Check(wc[i]);
        end.Receive();
      }
      return n > 0;
    }
    VerbsEnd& end;
  };
  Sender near(*a_, *b_);
  near.opcode = opcode;
  near.bytes = bytes;
  near.window = window;
  near.every = window >= 64 ? 16 : 1;
  near.count = count / near.every * near.every;
  Receiver far(*b_);
  if (opcode == IBV_WR_SEND) {
    // Receives stay posted for the next measurement: top up only.
    while (b_->qp->rq_depth() < 2 * VerbsEnd::kDepth) b_->Receive();
  }
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  RunBoth(near, far, near.finished);
  const uint64_t elapsed_ns = clock.NowNs() - start_ns;
  return static_cast<double>(near.count) * 1e9 / static_cast<double>(elapsed_ns);
}

uint64_t VerbsPair::retransmitted() const {
  return a_->worker.counters().retransmitted() + b_->worker.counters().retransmitted();
}

}  // namespace pollux::bench
