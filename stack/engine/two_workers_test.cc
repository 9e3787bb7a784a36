// Two workers on threads of their own, with traffic between them and control calls from a third.
// Under --config=tsan it looks for data races between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/thread.h"
#include "tests/sim/connect.h"

namespace pollux::engine {
namespace {

constexpr uint32_t kBytes = 8192;  // of a message: several packets
constexpr uint32_t kUnderWay = 8;
constexpr uint64_t kOperations = 2'000;
constexpr int kControlRounds = 100;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

DeviceOptions At(uint32_t address) {
  DeviceOptions options;
  options.addresses = {net::InterfaceAddress::Ipv4(address)};
  return options;
}

// Runs on the worker's core and waits.
template <class Work>
auto On(Worker& worker, Work work) {
  std::promise<decltype(work())> promise;
  auto future = promise.get_future();
  Party::Post(worker, [&] { promise.set_value(work()); });
  return future.get();
}

// One end of a connection: sends messages, writes and reads in turn, and receives the other's.
// Lives on its worker's core; what others ask for is atomic.
class End : public Poller {
 public:
  explicit End(Device& device)
      : worker_(device.worker()),
        device_(device),
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
  // Where the peer's WRITEs and READs go: as much of this end as the other may look at.
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
    attr.timeout = 17;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.sgid_index = device_.gid_index();
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.raw.data(), peer.raw.size());
    if (!sim::BringToRts(worker_, qp_, peer_qpn, attr).ok()) return false;
    for (uint32_t i = 0; i < kUnderWay; ++i) Receive();
    worker_.AddPoller(this);
    return true;
  }

  // Of its own, that have completed well.
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
  Device& device_;
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

// Objects that come and go beside the traffic, as other connections' do.
bool MakeAndDestroy(Worker& worker) {
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
  Report report;
  return worker.Tell({.topic = "worker"}, &report) && worker.DestroyQp(*qp).ok() &&
         worker.DeregMr(*region).ok() && worker.DestroyCq(*cq).ok() && worker.DeallocPd(*pd).ok();
}

TEST(TwoWorkersTest, TrafficBothWaysBesideControlCalls) {
  ASSERT_TRUE(InitEal({.memory_mib = 256}).ok());
  auto pair = Device::OpenPair(At(0xC0000201), At(0xC0000202));
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device* devices[] = {pair->first.get(), pair->second.get()};
  std::unique_ptr<PollThread> threads[2];
  std::unique_ptr<End> ends[2];
  for (int i = 0; i < 2; ++i) {
    Worker* worker = &devices[i]->worker();
    auto started =
        PollThread::Start({}, [worker](uint64_t now_ns) { return worker->Poll(now_ns); });
    ASSERT_TRUE(started.ok()) << started.status();
    threads[i] = *std::move(started);
    ends[i] = On(*worker, [&] { return std::make_unique<End>(*devices[i]); });
  }
  for (int i = 0; i < 2; ++i) {
    const End& peer = *ends[1 - i];
    EXPECT_TRUE(On(devices[i]->worker(), [&] {
      return ends[i]->Start(devices[1 - i]->gid(), peer.qpn(), peer.target());
    }));
  }
  for (int round = 0; round < kControlRounds; ++round) {
    for (Device* device : devices) {
      EXPECT_TRUE(On(device->worker(), [device] { return MakeAndDestroy(device->worker()); }));
    }
  }
  for (const auto& end : ends) {
    while (end->done() < kOperations && !end->failed()) std::this_thread::yield();
    EXPECT_FALSE(end->failed());
  }
  for (int i = 0; i < 2; ++i) {
    On(devices[i]->worker(), [&] {
      ends[i].reset();
      return true;
    });
  }
  for (auto& thread : threads) thread->Stop();
  for (Device* device : devices) device->Close();
}

}  // namespace
}  // namespace pollux::engine
