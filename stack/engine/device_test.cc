#include "stack/engine/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_mempool.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/clock.h"
#include "stack/verbs/queue_pair.h"
#include "tests/sim/connect.h"

namespace pollux::engine {
namespace {

using ::testing::HasSubstr;

class DeviceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitEal({.memory_mib = 256}).ok()); }
};

DeviceOptions At(uint32_t address) {
  DeviceOptions options;
  options.addresses = {InterfaceAddress::Ipv4(address)};
  return options;
}

ibv_ah_attr AttrTo(const Device& to, const Device& from) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = from.gid_index();
  const Gid gid = to.gid();
  std::copy(gid.raw.begin(), gid.raw.end(), attr.grh.dgid.raw);
  return attr;
}

// Two workers polled in turn resolve each other through their rings.
TEST_F(DeviceTest, TheDevicesOfAPairResolveEachOther) {
  auto pair = Device::OpenPair(At(0xC0000201), At(0xC0000202));
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device& a = *pair->first;
  Device& b = *pair->second;
  EXPECT_EQ(a.interface().active_mtu(), IBV_MTU_4096);
  memory::ProtectionDomain* pd = *a.worker().AllocPd();
  verbs::AddressHandle* ah = *a.worker().CreateAh(pd, AttrTo(b, a));
  const Clock clock;
  for (int turn = 0; turn < 1000 && !ah->link->Load().resolved; ++turn) {
    a.worker().Poll(clock.NowNs());
    b.worker().Poll(clock.NowNs());
  }
  EXPECT_TRUE(ah->link->Load().resolved);
  EXPECT_EQ(ah->link->Load().mac, b.interface().config().mac);
  EXPECT_TRUE(a.worker().DestroyAh(ah).ok());
  EXPECT_TRUE(a.worker().DeallocPd(pd).ok());
  a.Close();
  b.Close();
}

// A client of one worker, and a server of two: its port has one queue, so that all that arrives for
// the second, and all that it sends, passes through the first.
TEST_F(DeviceTest, WorkersShareAPort) {
  DeviceOptions two = At(0xC0000202);
  two.workers = 2;
  auto pair = Device::OpenPair(At(0xC0000201), two);
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device& client = *pair->first;
  Device& server = *pair->second;
  ASSERT_EQ(server.workers(), 2u);
  EXPECT_EQ(server.port().queues(), 1u);
  EXPECT_EQ(client.steering(), nullptr);
  EXPECT_EQ(server.interface(0).config().mac, server.interface(1).config().mac);
  const auto poll_all = [&, clock = Clock()] {
    client.worker().Poll(clock.NowNs());
    for (uint32_t i = 0; i < 2; ++i) server.worker(i).Poll(clock.NowNs());
  };
  // Each finds the client: the answers to the second are copied to it.
  for (uint32_t i = 0; i < 2; ++i) {
    memory::ProtectionDomain* pd = *server.worker(i).AllocPd();
    verbs::AddressHandle* ah = *server.worker(i).CreateAh(pd, AttrTo(client, server));
    for (int turn = 0; turn < 1000 && !ah->link->Load().resolved; ++turn) poll_all();
    EXPECT_TRUE(ah->link->Load().resolved) << i;
    EXPECT_EQ(ah->link->Load().mac, client.interface().config().mac) << i;
    EXPECT_TRUE(server.worker(i).DestroyAh(ah).ok());
    EXPECT_TRUE(server.worker(i).DeallocPd(pd).ok());
  }
  EXPECT_GT(server.steering(0)->counters().carried, 0u);
  EXPECT_GT(server.steering(1)->counters().by_ring, 0u);
  EXPECT_EQ(server.steering(1)->counters().received, 0u);
  EXPECT_EQ(server.interface(1).counters().arp_replies_sent, 0u) << "the first answers";
  Stats stats;
  ASSERT_TRUE(server.worker(1).Collect({.topic = "worker"}, &stats));
  EXPECT_TRUE(std::ranges::any_of(stats.fields(), [](const Stats::Field& field) {
    return field.first == "steering/by_ring" && std::get<uint64_t>(field.second) > 0;
  }));
  client.Close();
  server.Close();
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rte_mempool_in_use_count(server.worker(i).packet_pool()), 0u);
  }
}

TEST_F(DeviceTest, QueuesAreTheMinimumOfTheWorkersOfBothSides) {
  DeviceOptions a = At(0xC0000201), b = At(0xC0000202);
  a.workers = 3;
  b.workers = 2;
  auto pair = Device::OpenPair(a, b);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->first->port().queues(), 2u);
  EXPECT_EQ(pair->second->port().queues(), 2u);
  pair->first->Close();
  pair->second->Close();
}

class SortingDeviceTest : public DeviceTest {
 protected:
  static constexpr uint32_t kWorkers = 2;
  // Both of two workers and two queues. What is sent on one arrives on the same of the other side,
  // as if it had been sorted, where the workers of the two speak with those of the same number.
  void SetUp() override {
    DeviceOptions a = At(0xC0000201), b = At(0xC0000202);
    a.workers = b.workers = kWorkers;
    auto pair = Device::OpenPair(a, b);
    ASSERT_TRUE(pair.ok()) << pair.status();
    std::tie(a_, b_) = *std::move(pair);
    now_ns_ = Clock().NowNs();
  }
  // What interfaces say unasked, and repeat at times of their own, is said after two seconds.
  void LetInterfacesClaim() {
    constexpr uint64_t kMs = 1'000'000;
    for (int i = 0; i < 2500; ++i) PollAll(kMs);
  }
  void PollAll(uint64_t pass_ns) {
    now_ns_ += pass_ns;
    for (Device* device : {a_.get(), b_.get()}) {
      for (uint32_t i = 0; i < kWorkers; ++i) device->worker(i).Poll(now_ns_);
    }
  }
  uint64_t RingHops() const {
    uint64_t hops = 0;
    for (const Device* device : {a_.get(), b_.get()}) {
      for (uint32_t i = 0; i < kWorkers; ++i) {
        const io::SteeringCounters& counters = device->steering(i)->counters();
        hops += counters.handed_over + counters.by_ring + counters.sent_by_ring;
      }
    }
    return hops;
  }

  uint64_t now_ns_ = 0;
  std::unique_ptr<Device> a_, b_;
};

// Of both sides' workers with the same number.
struct ConnectedPair {
  ConnectedPair(Device& a, Device& b, uint32_t worker) {
    Device* const devices[] = {&a, &b};
    for (int i = 0; i < 2; ++i) {
      workers[i] = &devices[i]->worker(worker);
      pds[i] = workers[i]->AllocPd().value();
      cqs[i] = workers[i]->CreateCq(4).value();
      verbs::QueuePairInitAttr init;
      init.pd = pds[i];
      init.send_cq = init.recv_cq = cqs[i];
      init.cap.max_send_wr = init.cap.max_recv_wr = 4;
      init.cap.max_send_sge = init.cap.max_recv_sge = 1;
      qps[i] = workers[i]->CreateQp(std::move(init)).value();
      regions[i] = workers[i]->RegMr(pds[i], memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE).value();
    }
    for (int i = 0; i < 2; ++i) {
      ibv_qp_attr attr{};
      attr.path_mtu = IBV_MTU_1024;
      attr.timeout = 20;
      attr.retry_cnt = attr.rnr_retry = 7;
      attr.ah_attr = AttrTo(*devices[1 - i], *devices[i]);
      EXPECT_TRUE(sim::BringToRts(*workers[i], qps[i], qps[1 - i]->qpn(), attr).ok());
    }
  }
  ~ConnectedPair() {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(workers[i]->DestroyQp(qps[i]).ok());
      EXPECT_TRUE(workers[i]->DeregMr(regions[i]).ok());
      EXPECT_TRUE(workers[i]->DestroyCq(cqs[i]).ok());
      EXPECT_TRUE(workers[i]->DeallocPd(pds[i]).ok());
    }
  }
  void PostMessage() {
    EXPECT_EQ(qps[1]->PostOneRecv(0, Sge(1)), 0);
    EXPECT_EQ(qps[0]->PostOneSend(0, Sge(0), IBV_SEND_SIGNALED, 0), 0);
  }
  ibv_sge Sge(int side) const {
    return {reinterpret_cast<uint64_t>(memory), sizeof memory, regions[side].key};
  }
  bool Completed() {
    if (cqs[0]->size() == 0 || cqs[1]->size() == 0) return false;
    for (verbs::CompletionQueue* cq : cqs) {
      EXPECT_EQ(cq->front()->status, IBV_WC_SUCCESS);
      cq->Pop();
    }
    return true;
  }

  uint8_t memory[64] = {};
  Worker* workers[2];
  memory::ProtectionDomain* pds[2];
  verbs::CompletionQueue* cqs[2];
  verbs::QueuePair* qps[2];
  memory::MemoryRegion regions[2];
};

TEST_F(SortingDeviceTest, FramesSortedByWorkerTakeNoRing) {
  LetInterfacesClaim();
  {
    std::vector<std::unique_ptr<ConnectedPair>> pairs;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      pairs.push_back(std::make_unique<ConnectedPair>(*a_, *b_, i));
    }
    uint64_t hops = 0;
    for (int round = 0; round < 3; ++round) {
      for (const auto& pair : pairs) {
        pair->PostMessage();
        bool completed = false;
        for (int turn = 0; turn < 100'000 && !completed; ++turn) {
          PollAll(1000);
          completed = pair->Completed();
        }
        EXPECT_TRUE(completed);
      }
      // In the first round they find each other, by frames that are for every worker.
      if (round == 0) hops = RingHops();
    }
    EXPECT_EQ(RingHops(), hops);
    for (uint32_t i = 0; i < kWorkers; ++i) EXPECT_GT(b_->steering(i)->counters().kept, 0u);
  }
  b_->Close();
  a_->Close();
}

// As ibv_devinfo -v shows it: the link-local address first.
TEST_F(DeviceTest, QueryGidExAndMulticastReachTheInterface) {
  auto pair = Device::OpenPair(At(0xC0000201), At(0xC0000202));
  ASSERT_TRUE(pair.ok()) << pair.status();
  Device& device = *pair->first;
  EXPECT_EQ(device.gid(), Gid::FromIpv4(0xC0000201));
  EXPECT_EQ(device.gid_index(), 1);
  EXPECT_EQ(device.QueryGidEx(0)->gid.raw[0], 0xFE);
  EXPECT_EQ(device.QueryGidEx(1)->gid.raw[15], 1);
  EXPECT_FALSE(device.QueryGidEx(2).ok());
  const Gid group = Gid::FromIpv4(0xE1010101);
  EXPECT_FALSE(device.LeaveMulticast(group).ok());
  EXPECT_TRUE(device.JoinMulticast(group).ok());
  EXPECT_TRUE(device.LeaveMulticast(group).ok());
  pair->first->Close();
  pair->second->Close();
}

// What the cores of two workers write with every message, made by one thread in turns and of few
// elements, which the heap puts side by side.
TEST_F(DeviceTest, NoCacheLineIsWrittenByTwoWorkers) {
  constexpr int kObjects = 20;
  constexpr uint32_t kElements = 4;
  struct Written {
    std::string what;
    uintptr_t first_line, last_line;
  };
  DeviceOptions two = At(0xC0000201);
  two.workers = 2;
  auto pair = Device::OpenPair(two, At(0xC0000202));
  ASSERT_TRUE(pair.ok()) << pair.status();
  std::vector<Written> written[2];
  for (int object = 0; object < kObjects; ++object) {
    memory::ProtectionDomain* pds[2];
    verbs::CompletionQueue* cqs[2];
    const auto add = [&](int worker, const char* what, const void* at, size_t bytes) {
      const auto begin = reinterpret_cast<uintptr_t>(at);
      written[worker].push_back({what, begin / 64, (begin + bytes - 1) / 64});
    };
    for (int i = 0; i < 2; ++i) {
      pds[i] = pair->first->worker(i).AllocPd().value();
      cqs[i] = pair->first->worker(i).CreateCq(kElements).value();
      cqs[i]->Push(ibv_wc{});
      add(i, "completion queue", cqs[i], sizeof *cqs[i]);
      add(i, "completions", cqs[i]->front(), kElements * sizeof(ibv_wc));
    }
    for (int i = 0; i < 2; ++i) {
      Worker& worker = pair->first->worker(i);
      const ibv_srq_attr attr = {.max_wr = kElements, .max_sge = 1, .srq_limit = 0};
      const verbs::SharedReceiveQueue* srq = worker.CreateSrq(pds[i], attr).value();
      add(i, "shared receive queue", srq, sizeof *srq);
    }
    for (int i = 0; i < 2; ++i) {
      verbs::QueuePairInitAttr init;
      init.pd = pds[i];
      init.send_cq = init.recv_cq = cqs[i];
      init.cap = {.max_send_wr = kElements,
                  .max_recv_wr = kElements,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 8};
      verbs::QueuePair* qp = pair->first->worker(i).CreateQp(std::move(init)).value();
      add(i, "queue pair", qp, sizeof *qp);
      add(i, "sends", &qp->sq(0), kElements * sizeof(verbs::SendWqe));
      add(i, "elements of sends", qp->sq_sge(0), kElements * sizeof(ibv_sge));
      add(i, "inline data", qp->sq_inline(0), kElements * size_t{8});
      add(i, "receives", &qp->recv(), kElements * sizeof(verbs::PostedRecv));
    }
  }
  for (const Written& one : written[0]) {
    for (const Written& other : written[1]) {
      EXPECT_TRUE(one.last_line < other.first_line || other.last_line < one.first_line)
          << "the " << one.what << " of one, the " << other.what << " of the other";
    }
  }
  pair->first->Close();
  pair->second->Close();
}

TEST_F(DeviceTest, ErrorsNameTheInvalidOption) {
  DeviceOptions options = At(0xC0000201);
  options.addresses[0].prefix_length = 33;
  EXPECT_THAT(std::string(Device::OpenPair(options, At(1)).status().message()),
              HasSubstr("192.0.2.1/33"));
  options = At(0xC0000201);
  for (const uint32_t workers : {0u, 17u}) {
    options.workers = workers;
    EXPECT_THAT(std::string(Device::OpenPair(options, At(1)).status().message()),
                HasSubstr("1 to 16"));
  }
  options = At(0xC0000201);
  options.forwards_all = true;
  EXPECT_EQ(
      Device::OpenPair(options, At(1)).status(),
      absl::InvalidArgumentError("kernel path \"\", workers 1: a port that forwards all frames "
                                 "has a kernel path and one worker; give these"));
  options = At(0xC0000201);
  options.port = "net_nothing0";
  EXPECT_FALSE(Device::Open(options).ok());
}

}  // namespace
}  // namespace pollux::engine
