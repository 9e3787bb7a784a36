#include "tests/bench/shared_port.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "stack/engine/device.h"
#include "stack/engine/loop/clock.h"
#include "stack/engine/loop/progress_thread.h"
#include "tests/bench/verbs_end.h"
#include "tests/sim/connect.h"
#include "tools/bench/core_to_core.h"

namespace pollux::bench {
namespace {

constexpr int kBatch = 32;
constexpr std::chrono::milliseconds kLook{1};  // the cores are the lanes'

// One end of a connection; lives on its worker's core.
class End : public engine::Poller {
 public:
  End(engine::Worker& worker, uint32_t bytes, uint32_t window)
      : worker_(worker),
        buffer_(bytes),
        pd_(worker_.AllocPd().value()),
        cq_(worker_.CreateCq(4 * window).value()),
        region_(
            worker_.RegMr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE).value()) {
    verbs::QueuePairInitAttr init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = window;
    init.cap.max_recv_wr = 2 * window;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp_ = worker_.CreateQp(std::move(init)).value();
    worker_.AddPoller(this);
  }
  // When nobody polls the worker any more.
  ~End() override {
    worker_.RemovePoller(this);
    worker_.DestroyQp(qp_).IgnoreError();
    worker_.DestroyCq(cq_).IgnoreError();
    worker_.DeregMr(region_).IgnoreError();
    worker_.DeallocPd(pd_).IgnoreError();
  }
  verbs::QueuePair* qp() { return qp_; }
  engine::Worker& worker() { return worker_; }
  void Receive() {
    ibv_sge sge = Buffer();
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (qp_->PostRecv(&wr, nullptr) != 0) std::abort();
  }
  void Send() {
    ibv_sge sge = Buffer();
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (qp_->PostSend(&wr, nullptr) != 0) std::abort();
  }

 protected:
  // How many have completed; a failure is the end of the program.
  int Reap() {
    ibv_wc wc[kBatch];
    const int count = cq_->Poll(kBatch, wc);
    for (int i = 0; i < count; ++i) Check(wc[i]);
    return count;
  }

 private:
  ibv_sge Buffer() {
    return {reinterpret_cast<uint64_t>(buffer_.data()), static_cast<uint32_t>(buffer_.size()),
            region_.key};
  }
  engine::Worker& worker_;
  std::vector<uint8_t> buffer_;
  memory::ProtectionDomain* pd_;
  verbs::CompletionQueue* cq_;
  memory::MemoryRegion region_;
  verbs::QueuePair* qp_ = nullptr;
};

class Receiver : public End {
 public:
  using End::End;
  // Once it is connected.
  void ReceiveAll(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) Receive();
  }
  bool Poll(uint64_t) override {
    const int count = Reap();
    for (int i = 0; i < count; ++i) Receive();
    return count > 0;
  }
};

class Sender : public End {
 public:
  Sender(engine::Worker& worker, uint32_t bytes, uint32_t window, uint64_t count)
      : End(worker, bytes, window), count_(count), window_(window) {}
  bool Poll(uint64_t now_ns) override {
    if (completed_ == count_) return false;
    if (completed_ == 0 && posted_ == 0) start_ns_ = now_ns;
    completed_ += static_cast<uint64_t>(Reap());
    const uint64_t before = posted_;
    for (; posted_ < count_ && posted_ - completed_ < window_; ++posted_) Send();
    if (completed_ == count_) {
      per_second_ = static_cast<double>(count_) * 1e9 / static_cast<double>(now_ns - start_ns_);
      done_.store(true, std::memory_order_release);
    }
    return posted_ > before;
  }
  bool done() const { return done_.load(std::memory_order_acquire); }
  double per_second() const { return per_second_; }  // once done

 private:
  const uint64_t count_;
  const uint32_t window_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint64_t start_ns_ = 0;
  double per_second_ = 0;
  std::atomic<bool> done_{false};
};

// A core's part: one worker of each end, polled by turns.
struct Lane {
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  std::unique_ptr<engine::ProgressThread> thread;
};

absl::Status Start(engine::Device& a, engine::Device& b, uint32_t number, uint32_t window,
                   Lane& lane) {
  engine::Worker& near = lane.sender->worker();
  engine::Worker& far = lane.receiver->worker();
  absl::Status status = sim::BringToRts(near, lane.sender->qp(), lane.receiver->qp()->qpn(),
                                        ReliableAttributes(a, b));
  status.Update(sim::BringToRts(far, lane.receiver->qp(), lane.sender->qp()->qpn(),
                                ReliableAttributes(b, a)));
  if (!status.ok()) return status;
  lane.receiver->ReceiveAll(2 * window);
  engine::ProgressThread::Options options;
  options.policy.idle = engine::Idle::kSpin;
  const std::vector<int> cpus = tools::UsableCpus();
  if (number < cpus.size()) options.cpu = cpus[number];
  auto thread = engine::ProgressThread::Start(options, [&near, &far](uint64_t now_ns) {
    const bool worked = near.Poll(now_ns);
    return far.Poll(now_ns) || worked;
  });
  if (!thread.ok()) return thread.status();
  lane.thread = *std::move(thread);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> SharedPortSendsPerSecond(uint32_t workers, Hops hops, uint32_t bytes,
                                                uint64_t count, uint32_t window) {
  engine::DeviceOptions near, far;
  near.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
  far.addresses = {InterfaceAddress::Ipv4(0xC0000202)};
  near.workers = far.workers = workers;
  absl::StatusOr<engine::Device::Pair> opened = engine::Device::OpenPair(near, far);
  if (!opened.ok()) return opened.status();
  engine::Device& a = *opened->first;
  engine::Device& b = *opened->second;
  std::vector<Lane> lanes(workers);
  for (uint32_t i = 0; i < workers; ++i) {
    const uint32_t to = hops == Hops::kNone ? i : (i + 1) % workers;
    lanes[i].receiver = std::make_unique<Receiver>(b.worker(to), bytes, window);
    lanes[i].sender = std::make_unique<Sender>(a.worker(i), bytes, window, count);
  }
  absl::Status status;
  for (uint32_t i = 0; i < workers && status.ok(); ++i) status = Start(a, b, i, window, lanes[i]);
  double sum = 0;
  for (const Lane& lane : lanes) {
    // All go on until the last is done: each passes on what is another's.
    while (status.ok() && !lane.sender->done()) std::this_thread::sleep_for(kLook);
    sum += lane.sender->per_second();
  }
  for (Lane& lane : lanes) lane.thread.reset();
  lanes.clear();
  b.Close();
  a.Close();
  if (!status.ok()) return status;
  return sum;
}

}  // namespace pollux::bench
