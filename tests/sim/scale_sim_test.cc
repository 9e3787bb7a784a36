// Ten thousand connections between two hosts of one core each.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "tests/sim/connect.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kConnections = 10'000;
constexpr uint32_t kReceives = 4096;

// All queue pairs of a host. Each sends one message, which bears its index, as soon as fewer than
// `window` are under way.
class Crowd : public engine::Poller {
 public:
  explicit Crowd(Node& node)
      : node_(node),
        pd_(worker().AllocPd().value()),
        cq_(worker().CreateCq(2 * kConnections).value()),
        srq_(worker().CreateSrq(pd_, {.max_wr = kReceives, .max_sge = 1, .srq_limit = 0}).value()) {
    for (uint32_t i = 0; i < kConnections; ++i) sent_words_.push_back(i);
    received_words_.resize(kReceives);
    sent_region_ = Register(sent_words_, 0);
    received_region_ = Register(received_words_, IBV_ACCESS_LOCAL_WRITE);
    for (uint32_t i = 0; i < kReceives; ++i) PostReceive(i);
    for (uint32_t i = 0; i < kConnections; ++i) {
      verbs::QueuePairInitAttr init;
      init.pd = pd_;
      init.send_cq = init.recv_cq = cq_;
      init.srq = srq_;
      qps_.push_back(worker().CreateQp(std::move(init)).value());
    }
    worker().AddPoller(this);
  }
  ~Crowd() override {
    worker().RemovePoller(this);
    for (verbs::QueuePair* qp : qps_) EXPECT_TRUE(worker().DestroyQp(qp).ok());
    for (const auto& region : {sent_region_, received_region_}) {
      EXPECT_TRUE(worker().DeregMr(region).ok());
    }
    EXPECT_TRUE(worker().DestroySrq(srq_).ok());
    EXPECT_TRUE(worker().DestroyCq(cq_).ok());
    EXPECT_TRUE(worker().DeallocPd(pd_).ok());
  }

  void Connect(const Crowd& peer) {
    ibv_qp_attr attr{};
    attr.path_mtu = IBV_MTU_1024;
    attr.min_rnr_timer = 1;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    for (uint32_t i = 0; i < kConnections; ++i) {
      attr.sq_psn = i;
      attr.rq_psn = i;
      const absl::Status status = BringToRts(node_, qps_[i], peer.node_, peer.qps_[i]->qpn(), attr);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  void Start(uint32_t window) {
    window_ = window;
    posted_ = completed_ = 0;
    received_.assign(kConnections, 0);
    received_count_ = 0;
  }
  bool finished() const { return completed_ == kConnections && received_count_ == kConnections; }

  bool Poll(uint64_t) override {
    ibv_wc completions[32];
    int count = 0, total = 0;
    while ((count = cq_->Poll(32, completions)) > 0) {
      for (int i = 0; i < count; ++i) OnCompletion(completions[i]);
      total += count;
    }
    bool posted = false;
    for (; posted_ < kConnections && posted_ - completed_ < window_; ++posted_) {
      PostSend(posted_);
      posted = true;
    }
    return posted || total > 0;
  }

  bool right = true;  // each completion so far

 private:
  engine::Worker& worker() { return node_.worker(); }
  memory::MemoryRegion Register(std::vector<uint32_t>& words, int access) {
    return worker().RegMr(pd_, words.data(), words.size() * sizeof words[0], access).value();
  }
  void PostReceive(uint64_t place) {
    ibv_sge sge{reinterpret_cast<uint64_t>(&received_words_[place]), 4, received_region_.key};
    ibv_recv_wr wr{};
    wr.wr_id = place;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    right &= srq_->PostRecv(&wr, nullptr) == 0;
  }
  void PostSend(uint32_t index) {
    ibv_sge sge{reinterpret_cast<uint64_t>(&sent_words_[index]), 4, sent_region_.key};
    ibv_send_wr wr{};
    wr.wr_id = index;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    right &= qps_[index]->PostSend(&wr, nullptr) == 0;
  }
  void OnCompletion(const ibv_wc& wc) {
    right &= wc.status == IBV_WC_SUCCESS;
    if ((wc.opcode & IBV_WC_RECV) == 0) {
      ++completed_;
      return;
    }
    const uint32_t index = received_words_[wc.wr_id];
    right &=
        index < kConnections && wc.qp_num == qps_[index]->qpn().value && ++received_[index] == 1;
    ++received_count_;
    PostReceive(wc.wr_id);
  }

  Node& node_;
  memory::ProtectionDomain* pd_;
  verbs::CompletionQueue* cq_;
  verbs::SharedReceiveQueue* srq_;
  std::vector<verbs::QueuePair*> qps_;
  std::vector<uint32_t> sent_words_, received_words_;
  memory::MemoryRegion sent_region_, received_region_;
  std::vector<uint8_t> received_;
  uint32_t window_ = 0, posted_ = kConnections, completed_ = 0, received_count_ = 0;
};

TEST(ScaleSimTest, OneCoreServesTenThousandConnections) {
  ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok());
  Simulation simulation(1, {.min_delay_ns = 2'000, .max_delay_ns = 5'000});
  const NodeOptions options = {.packet_buffers = 16383, .max_queue_pairs = kConnections + 1};
  Node& a = simulation.AddNode(options);
  Node& b = simulation.AddNode(options);
  ASSERT_TRUE(FindEachOther(simulation, a, b));
  const auto retransmitted = [&] {
    return a.worker().counters().retransmitted_pkts + b.worker().counters().retransmitted_pkts;
  };
  {
    Crowd at_a(a), at_b(b);
    at_a.Connect(at_b);
    at_b.Connect(at_a);
    const auto run = [&](uint32_t window) {
      at_a.Start(window);
      at_b.Start(window);
      const uint64_t deadline_ns = simulation.now_ns() + 60 * Simulation::kSecond;
      EXPECT_TRUE(
          simulation.RunUntil([&] { return at_a.finished() && at_b.finished(); }, deadline_ns));
      EXPECT_TRUE(at_a.right && at_b.right);
    };
    // As many under way as the network holds: nothing is sent twice.
    run(1'000);
    EXPECT_EQ(retransmitted(), 0u);
    // All at once, which is more than it holds; what is lost is made good.
    run(kConnections);
    EXPECT_GT(simulation.fabric().counters().queue_overflow, 0u);
    EXPECT_GT(retransmitted(), 0u);
  }
  EXPECT_EQ(simulation.Leaks(), "");
}

}  // namespace
}  // namespace pollux::sim
