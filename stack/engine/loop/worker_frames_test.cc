// Received frames: for whom they are, by addresses that may change, and that each goes home.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/engine/eal.h"
#include "stack/engine/loop/link_watch.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/polling/progress_policy.h"
#include "stack/ip/host_interface.h"
#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"

namespace pollux::engine {
namespace {

using transport::Drop;

constexpr uint32_t kOurs = 0xC0000201, kPeer = 0xC0000202;
constexpr size_t kIp = 14, kUdp = 34, kBth = 42;

// Its addresses are what a test makes them.
class FakeKernel : public ip::HostInterface {
 public:
  FakeKernel() {
    state_.mac = {2, 0, 0, 0, 0, 1};
    state_.mtu = 1500;
    state_.addresses = {InterfaceAddress::Ipv4(kOurs)};
  }
  bool Poll(std::vector<ip::KernelNeighbour>*) override { return std::exchange(changed, false); }
  const ip::KernelState& state() const override { return state_; }
  void Solicit(const Gid&) override {}
  absl::Status Join(const Gid&) override { return absl::OkStatus(); }
  absl::Status Leave(const Gid&) override { return absl::OkStatus(); }

  ip::KernelState state_;
  bool changed = false;
};

class FakeLink : public io::Link {
 public:
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
    uint16_t count = 0;
    for (; count < capacity && !incoming.empty(); ++count) {
      frames[count] = incoming.front();
      incoming.pop_front();
    }
    return count;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    rte_pktmbuf_free_bulk(frames, count);
    return count;
  }
  std::deque<rte_mbuf*> incoming;
};

class WorkerFramesTest : public ::testing::Test {
 protected:
  static constexpr unsigned kBuffers = 511;
  static void SetUpTestSuite() { ASSERT_TRUE(InitEal().ok()); }
  WorkerFramesTest() {
    WorkerConfig config;
    config.packet_buffers = kBuffers;
    worker_ = Worker::Create(config).value();
    ip::InterfaceConfig of_port;
    of_port.mtu = 1500;
    interface_ = std::make_unique<ip::Interface>(of_port, &kernel_);
    worker_->AddPort(interface_.get(), &link_);
  }
  ~WorkerFramesTest() override {
    interface_.reset();
    EXPECT_EQ(rte_mempool_in_use_count(worker_->packet_pool()), 0u);
  }
  // To a queue pair that is not there.
  rte_mbuf* Frame(uint32_t source, uint32_t destination, rte_mempool* pool = nullptr,
                  uint8_t last_of_mac = 1) {
    std::vector<uint8_t> bytes(kBth + wire::kBthBytes + 4);
    bytes[0] = bytes[6] = 2;
    bytes[5] = last_of_mac;
    bytes[12] = 8;
    const uint8_t ip[] = {0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 17};
    std::memcpy(&bytes[kIp], ip, sizeof ip);
    for (int i = 0; i < 4; ++i) {
      bytes[kIp + 12 + i] = static_cast<uint8_t>(source >> (24 - 8 * i));
      bytes[kIp + 16 + i] = static_cast<uint8_t>(destination >> (24 - 8 * i));
    }
    uint32_t sum = 0;
    for (size_t i = kIp; i < kUdp; i += 2) sum += bytes[i] << 8 | bytes[i + 1];
    while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
    bytes[kIp + 10] = static_cast<uint8_t>(~sum >> 8);
    bytes[kIp + 11] = static_cast<uint8_t>(~sum);
    const uint8_t udp[] = {0xC0, 0, 0x12, 0xB7, 0, 24};
    std::memcpy(&bytes[kUdp], udp, sizeof udp);
    wire::EmitBth({.opcode = wire::Opcode::kRcSendOnly, .dest_qpn = Qpn{100}}, &bytes[kBth]);
    rte_mbuf* frame = rte_pktmbuf_alloc(pool != nullptr ? pool : worker_->packet_pool());
    EXPECT_NE(frame, nullptr);
    std::memcpy(rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size())), bytes.data(),
                bytes.size());
    return frame;
  }
  // Whether it is taken for this host's.
  bool IsTaken(rte_mbuf* frame) {
    const uint64_t before = worker_->counters().drop(Drop::kNotForUs);
    const uint64_t taken = worker_->counters().drop(Drop::kUnknownQpn);
    link_.incoming.push_back(frame);
    Pass(0);
    const bool is_taken = worker_->counters().drop(Drop::kUnknownQpn) == taken + 1;
    EXPECT_EQ(worker_->counters().drop(Drop::kNotForUs), before + (is_taken ? 0 : 1));
    return is_taken;
  }
  void Pass(uint64_t ns) { worker_->Poll(now_ns_ += ns); }
  void KernelChanges() {
    kernel_.changed = true;
    Pass(2 * ip::HostInterface::kPollNs);
    Pass(2 * ip::HostInterface::kPollNs);
  }

  uint64_t now_ns_ = 0;
  FakeKernel kernel_;
  FakeLink link_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ip::Interface> interface_;
};

TEST_F(WorkerFramesTest, EachFrameIsCheckedByItsOwnAddresses) {
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_TRUE(IsTaken(Frame(kPeer, kOurs)));
    EXPECT_FALSE(IsTaken(Frame(kPeer, kOurs + 8)));
    EXPECT_TRUE(IsTaken(Frame(kPeer, kOurs)));
    EXPECT_FALSE(IsTaken(Frame(kPeer, kOurs, nullptr, /*last_of_mac=*/9)));
    EXPECT_TRUE(IsTaken(Frame(kPeer + 1, kOurs)));
  }
}

// The kernel is looked at every 5 ms and the link every 100: whoever polls sleeps in between.
TEST_F(WorkerFramesTest, AnIdleWorkerOnAKernelInterfaceLetsItsThreadSleep) {
  constexpr uint64_t kSecond = 1'000'000'000, kTurnNs = 100;
  worker_->WatchLink([] { return io::LinkState{.up = true}; });
  ProgressPolicy policy({.idle = Idle::kYield, .application = Application::kUnmodified});
  uint64_t turns = 0;
  for (now_ns_ = kSecond; now_ns_ < 11 * kSecond; ++turns) {
    ASSERT_TRUE(policy.Due(now_ns_, /*polled_ns=*/0, /*sleep_expected=*/false));
    const bool naps =
        policy.AfterTurn({.work = worker_->Poll(now_ns_)}) == ProgressPolicy::Pause::kNap;
    now_ns_ += naps ? policy.nap_ns() : kTurnNs;
  }
  constexpr uint64_t kUntilNapsAreLong =
      ProgressPolicy::kSpinTurns + ProgressPolicy::kVeryIdleNaps + 16;
  EXPECT_LE(turns, kUntilNapsAreLong + 10 * kSecond / ProgressPolicy::kMaxIdleNapNs);
}

// What was found of the last frame holds no longer.
TEST_F(WorkerFramesTest, ChangedAddressesAreCheckedAgain) {
  EXPECT_TRUE(IsTaken(Frame(kPeer, kOurs)));
  kernel_.state_.addresses = {InterfaceAddress::Ipv4(kOurs + 8)};
  KernelChanges();
  EXPECT_FALSE(IsTaken(Frame(kPeer, kOurs)));
  EXPECT_TRUE(IsTaken(Frame(kPeer, kOurs + 8)));
  kernel_.state_.mac = {2, 0, 0, 0, 0, 9};
  KernelChanges();
  EXPECT_FALSE(IsTaken(Frame(kPeer, kOurs + 8)));
  EXPECT_TRUE(IsTaken(Frame(kPeer, kOurs + 8, nullptr, /*last_of_mac=*/9)));
}

// More than this core's cache of a pool takes, of two pools by turns, in two pieces, and one that
// somebody else still holds.
TEST_F(WorkerFramesTest, AllMbufsReturnToTheirPool) {
  rte_mempool* other =
      rte_pktmbuf_pool_create("worker_frames", kBuffers, 32, 0, 2048, SOCKET_ID_ANY);
  ASSERT_NE(other, nullptr);
  rte_mbuf* held = Frame(kPeer, kOurs);
  rte_mbuf_refcnt_set(held, 2);
  link_.incoming.push_back(held);
  for (unsigned i = 0; i < kBuffers - 20; ++i) {
    rte_mbuf* frame = Frame(kPeer, kOurs, i % 3 == 0 ? other : nullptr);
    // Some of each burst are the interface's.
    if (i % 7 == 0) StoreBe16(rte_pktmbuf_mtod(frame, uint8_t*) + 12, wire::kEtherTypeArp);
    link_.incoming.push_back(frame);
  }
  for (int i = 0; i < 4; ++i) {
    rte_mbuf* first = Frame(kPeer, kOurs);
    ASSERT_EQ(rte_pktmbuf_chain(first, Frame(kPeer, kOurs)), 0);
    link_.incoming.push_back(first);
  }
  while (!link_.incoming.empty()) Pass(1000);
  EXPECT_EQ(worker_->counters().drop(Drop::kScattered), 4u);
  EXPECT_EQ(rte_mempool_in_use_count(other), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(worker_->packet_pool()), 1u);
  rte_pktmbuf_free(held);
  // Each of them once.
  std::vector<rte_mbuf*> all(kBuffers);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(worker_->packet_pool(), all.data(), kBuffers), 0);
  rte_pktmbuf_free_bulk(all.data(), kBuffers);
  rte_mempool_free(other);
}

}  // namespace
}  // namespace pollux::engine
