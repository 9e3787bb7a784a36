#include "tests/bench/verbs_load.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "stack/engine/clock.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/one_thread.h"
#include "tests/sim/connect.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kDepth = 256;
constexpr uint32_t kBufferBytes = 4u << 20;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

void Check(const ibv_wc& wc) {
  if (wc.status == IBV_WC_SUCCESS) return;
  std::fprintf(stderr, "bench: a work request failed: %s\n", ibv_wc_status_str(wc.status));
  std::abort();
}

}  // namespace

ibv_qp_attr ReliableAttributes(engine::Device& own, engine::Device& peer) {
  ibv_qp_attr attr{};
  attr.qp_access_flags = kAccess;
  attr.path_mtu = std::min(own.interface().active_mtu(), peer.interface().active_mtu());
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.timeout = 19;  // 2.1 s: threads that spin on a busy machine stand still for long
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.sgid_index = own.gid_index();
  std::memcpy(attr.ah_attr.grh.dgid.raw, peer.gid().raw.data(), 16);
  return attr;
}

struct VerbsPair::End {
  engine::Device* device;
  engine::Worker& worker;
  memory::ProtectionDomain* pd = nullptr;
  verbs::CompletionQueue* cq = nullptr;
  verbs::QueuePair* qp = nullptr;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kBufferBytes, 1);
  memory::MemoryRegion region;

  explicit End(engine::Device* opened) : device(opened), worker(opened->worker()) {}

  absl::Status Create() {
    pd = *worker.AllocPd();
    cq = *worker.CreateCq(4 * kDepth);
    absl::StatusOr<memory::MemoryRegion> registered =
        worker.RegMr(pd, buffer.data(), buffer.size(), kAccess);
    if (!registered.ok()) return registered.status();
    region = *registered;
    verbs::QueuePairInitAttr init;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = kDepth,
                .max_recv_wr = 2 * kDepth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    absl::StatusOr<verbs::QueuePair*> made = worker.CreateQp(std::move(init));
    if (made.ok()) qp = *made;
    return made.status();
  }

  absl::Status Connect(const End& peer) {
    return sim::BringToRts(worker, qp, peer.qp->qpn(), ReliableAttributes(*device, *peer.device));
  }

  // A message of any size: what one measurement leaves posted serves the next.
  void Receive() {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data()), kBufferBytes / 2, region.key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (qp->PostRecv(&wr, nullptr) != 0) std::abort();
  }
  void Post(ibv_wr_opcode opcode, uint32_t bytes, const End& peer, bool signalled) {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data() + kBufferBytes / 2), bytes, region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(peer.buffer.data());
    wr.wr.rdma.rkey = peer.region.key;
    if (qp->PostSend(&wr, nullptr) != 0) std::abort();
  }
};

VerbsPair::VerbsPair(Threads threads, unsigned first_cpu)
    : threads_(threads), first_cpu_(first_cpu) {}
VerbsPair::~VerbsPair() {
  for (End* end : {a_.get(), b_.get()}) {
    if (end == nullptr || end->qp == nullptr) continue;
    end->worker.DestroyQp(end->qp).IgnoreError();
    end->worker.DestroyCq(end->cq).IgnoreError();
    end->worker.DeregMr(end->region).IgnoreError();
    end->worker.DeallocPd(end->pd).IgnoreError();
  }
}

absl::StatusOr<std::unique_ptr<VerbsPair>> VerbsPair::Connect(engine::Device* a, engine::Device* b,
                                                              Threads threads, unsigned first_cpu) {
  std::unique_ptr<VerbsPair> pair(new VerbsPair(threads, first_cpu));
  pair->a_ = std::make_unique<End>(a);
  pair->b_ = std::make_unique<End>(b);
  absl::Status status = pair->a_->Create();
  status.Update(pair->b_->Create());
  if (!status.ok()) return status;
  status.Update(pair->a_->Connect(*pair->b_));
  status.Update(pair->b_->Connect(*pair->a_));
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
    Echo(End& own, End& other, uint32_t length, uint64_t total)
        : end(own), peer(other), bytes(length), left(total) {}
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
    End& end;
    End& peer;
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
  a_->Post(IBV_WR_SEND, bytes, *b_, false);
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  RunBoth(near, far, near.finished);
  const uint64_t elapsed_ns = clock.NowNs() - start_ns;
  return static_cast<double>(elapsed_ns) / static_cast<double>(rounds);
}

double VerbsPair::WriteRoundTripNs(uint32_t bytes, uint64_t rounds) {
  // Answers each write by one, which bears the next number; 0 stands for none.
  struct Mirror : engine::Poller {
    Mirror(End& own, End& other, uint32_t length, uint64_t total)
        : end(own), peer(other), bytes(length), left(total) {
      end.buffer[bytes - 1] = 0;
    }
    static uint8_t NumberOf(uint64_t round) { return static_cast<uint8_t>(round % UINT8_MAX + 1); }
    void Write(uint64_t round) {
      end.buffer[kBufferBytes / 2 + bytes - 1] = NumberOf(round);
      end.Post(IBV_WR_RDMA_WRITE, bytes, peer, false);
    }
    bool Poll(uint64_t) override {
      if (end.buffer[bytes - 1] != NumberOf(seen)) return false;
      ++seen;
      if (seen > left) {
        finished = true;
      } else {
        Write(answer_from + seen);
      }
      return true;
    }
    End& end;
    End& peer;
    uint32_t bytes;
    uint64_t left;
    uint64_t seen = 0;
    uint64_t answer_from = 0;
    bool finished = false;
  };
  // The far one repeats the number that it has seen, the near one takes the next.
  Mirror near(*a_, *b_, bytes, rounds - 1), far(*b_, *a_, bytes, rounds);
  far.answer_from = UINT64_MAX;
  near.Write(0);
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  RunBoth(near, far, near.finished);
  return static_cast<double>(clock.NowNs() - start_ns) / static_cast<double>(rounds);
}

double VerbsPair::PerSecond(ibv_wr_opcode opcode, uint32_t bytes, uint64_t count, uint32_t window) {
  struct Sender : engine::Poller {
    Sender(End& own, End& other) : end(own), peer(other) {}
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
    End& end;
    End& peer;
    ibv_wr_opcode opcode{};
    uint32_t bytes = 0, window = 0, every = 1;
    uint64_t count = 0, sent = 0, done = 0;
    bool finished = false;
  };
  struct Receiver : engine::Poller {
    explicit Receiver(End& own) : end(own) {}
    bool Poll(uint64_t) override {
      ibv_wc wc[32];
      const int n = end.cq->Poll(32, wc);
      for (int i = 0; i < n; ++i) {
        Check(wc[i]);
        end.Receive();
      }
      return n > 0;
    }
    End& end;
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
    while (b_->qp->rq_depth() < 2 * kDepth) b_->Receive();
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
