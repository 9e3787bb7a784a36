// Devices of several workers on the kernel's interfaces. Needs a network namespace of its own.
#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "stack/base/eventually_for_test.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/loop/link_watch.h"
#include "stack/engine/polling/progress_thread.h"
#include "stack/io/own_network_for_test.h"

namespace pollux::engine {
namespace {

constexpr uint32_t kWorkers = 2;
constexpr uint32_t kKernel = 0x0A090001;  // 10.9.0.1
constexpr uint32_t kOurs = 0x0A090002;
constexpr uint32_t kNeighbour = 0x0A090009;

bool Shell(const std::string& command) { return std::system((command + " >&2").c_str()) == 0; }

class DeviceKernelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)io::EnterOwnNetwork();
    ASSERT_TRUE(InitEal({.memory_mib = 256}).ok());
  }
  void SetUp() override {
    if (!io::EnterOwnNetwork()) GTEST_SKIP() << "needs the right to a network namespace";
    if (!Shell("ip link add vkern type veth peer name vport")) {
      GTEST_SKIP() << "needs the command ip and a network namespace of its own";
    }
    ASSERT_TRUE(
        Shell("ip link set vkern up && ip link set vport up && ip addr add 10.9.0.1/24 dev vkern"));
  }
  void TearDown() override {
    threads_.clear();
    device_.reset();
    (void)Shell("ip link del vkern 2>/dev/null");
  }
  void Open(DeviceOptions options, uint32_t workers = kWorkers) {
    options.workers = workers;
    auto opened = Device::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    device_ = *std::move(opened);
    ASSERT_EQ(device_->port().queues(), workers);
    for (uint32_t i = 0; i < workers; ++i) {
      Worker* worker = &device_->worker(i);
      auto thread =
          ProgressThread::Start({}, [worker](uint64_t now_ns) { return worker->Poll(now_ns); });
      ASSERT_TRUE(thread.ok()) << thread.status();
      threads_.push_back(*std::move(thread));
    }
  }
  // On each worker: whether it finds who has that address.
  void EachFinds(uint32_t address) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      Worker* worker = &device_->worker(i);
      std::atomic<bool> done{false};
      absl::Status result;
      Actor::Post(*worker, [&, worker] {
        transport::PollContext context = worker->poll_context();
        worker->interface().Resolve(Gid::FromIpv4(address), context, [&](absl::Status status) {
          result = std::move(status);
          done.store(true, std::memory_order_release);
        });
      });
      while (!done.load(std::memory_order_acquire)) std::this_thread::yield();
      EXPECT_TRUE(result.ok()) << "worker " << i << ": " << result;
    }
  }

  // Of 1,000 bytes each, in one burst.
  void SendBroadcasts(uint16_t count) {
    Worker& worker = device_->worker();
    std::promise<uint16_t> sent;
    Actor::Post(worker, [&] {
      std::vector<rte_mbuf*> frames(count);
      for (rte_mbuf*& frame : frames) {
        frame = rte_pktmbuf_alloc(worker.packet_pool());
        std::memset(rte_pktmbuf_append(frame, 1000), 0xFF, 1000);
      }
      sent.set_value(device_->port().queue().Send(frames.data(), count, 0));
    });
    EXPECT_EQ(sent.get_future().get(), count);
  }

  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<ProgressThread>> threads_;
};

// Each ping is a flow of its own, which the kernel puts on either queue: one worker answers all.
TEST_F(DeviceKernelTest, OnlyOneWorkerAnswersPingAndEachResolvesItsPeer) {
  Open({.port = "net_af_packet0,iface=vport", .addresses = {InterfaceAddress::Ipv4(kOurs, 24)}});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Shell("ping -n -c 1 -W 60 10.9.0.2"));
  EachFinds(kKernel);
  threads_.clear();
  uint64_t received = 0;
  for (uint32_t i = 0; i < kWorkers; ++i) received += device_->steering(i)->counters().received;
  EXPECT_GT(received, 4u);
  EXPECT_EQ(device_->interface(0).counters().echo_replies_sent, 4u);
  EXPECT_EQ(device_->interface(1).counters().echo_replies_sent, 0u);
}

TEST_F(DeviceKernelTest, LoopbackIsRefusedWithAMessage) {
  ASSERT_TRUE(Shell("ip link set lo up"));
  const absl::Status refused = Device::Open({.netdev = "lo"}).status();
  EXPECT_NE(refused.message().find("loopback"), std::string::npos) << refused;
}

TEST_F(DeviceKernelTest, WorkersShareAnInterfaceWithTheKernel) {
  ASSERT_TRUE(Shell("ip addr add 10.9.0.2/24 dev vport"));
  Open({.netdev = "vport"});
  // Only now: the kernel forgets its neighbours when a driver takes the interface.
  ASSERT_TRUE(Shell("ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev vport nud reachable"));
  EXPECT_EQ(device_->gid(), Gid::FromIpv4(kOurs));
  EachFinds(kNeighbour);
}

TEST_F(DeviceKernelTest, PacketsPassAQueueingDisciplineThatAnAdministratorHasSet) {
  ASSERT_TRUE(Shell("ip addr add 10.9.0.2/24 dev vport"));
  if (!Shell("/sbin/tc qdisc add dev vport root tbf rate 1gbit burst 100k latency 10ms")) {
    GTEST_SKIP() << "needs the command tc and a kernel with tbf";
  }
  Open({.netdev = "vport"}, 1);
  SendBroadcasts(10);
  constexpr char kCounted[] = "/sbin/tc -s qdisc show dev vport | grep -Eq 'Sent [0-9]{5,} bytes'";
  EXPECT_TRUE(Eventually([&] { return Shell(kCounted); }));
  // Those that the kernel gives by itself are bypassed.
  threads_.clear();
  device_.reset();
  ASSERT_TRUE(Shell("/sbin/tc qdisc replace dev vport root pfifo_fast"));
  Open({.netdev = "vport"}, 1);
  SendBroadcasts(10);
  threads_.clear();
  device_->Close();
  EXPECT_FALSE(Shell(kCounted));
}

bool MayForceSendBuffers() {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  constexpr int kBytes = 1 << 20;
  const bool may = setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kBytes, sizeof kBytes) == 0;
  close(fd);
  return may;
}

TEST_F(DeviceKernelTest, ABurstThatWaitsInAQueueingDisciplineIsSentWithoutAnother) {
  if (!MayForceSendBuffers()) {
    GTEST_SKIP() << "needs CAP_NET_ADMIN outside of user namespaces";
  }
  ASSERT_TRUE(Shell("ip addr add 10.9.0.2/24 dev vport"));
  if (!Shell("/sbin/tc qdisc add dev vport root tbf rate 8mbit burst 10k limit 1m")) {
    GTEST_SKIP() << "needs the command tc and a kernel with tbf";
  }
  Open({.netdev = "vport"}, 1);
  SendBroadcasts(300);  // more than the default buffer of a socket has room for
  constexpr char kAll[] = "/sbin/tc -s qdisc show dev vport | grep -Eq 'Sent [3-9][0-9]{5} bytes'";
  EXPECT_TRUE(Eventually([&] { return Shell(kAll); }));
}

TEST_F(DeviceKernelTest, AForwardingDeviceIsAnInterfaceOfTheKernel) {
  DeviceOptions options{.kernel_path = "vtap",
                        .forwards_all = true,
                        .port = "net_af_packet0,iface=vport",
                        .addresses = {InterfaceAddress::Ipv4(kOurs, 24)}};
  EXPECT_EQ(Device::Open({.forwards_all = true, .port = options.port}).status().code(),
            absl::StatusCode::kInvalidArgument);
  Open(options, 1);
  EXPECT_TRUE(Shell("ip addr show vtap | grep -q 10.9.0.2/24"));
  // The kernel looks for a host that does not exist, on either interface.
  EXPECT_FALSE(Shell("ping -n -c 1 -W 1 -I vkern 10.9.0.9"));
  EXPECT_FALSE(Shell("ping -n -c 1 -W 1 -I vtap 10.9.0.9"));
  const auto counter = [this](const char* name) {
    Worker& worker = device_->worker();
    std::promise<Stats> told;
    Actor::Post(worker, [&] {
      Stats stats;
      EXPECT_TRUE(worker.Collect({.topic = "port", .object = {}}, &stats));
      told.set_value(std::move(stats));
    });
    const Stats stats = told.get_future().get();
    for (const auto& [known, value] : stats.fields()) {
      if (known == name) return std::get<uint64_t>(value);
    }
    return uint64_t{0};
  };
  EXPECT_TRUE(Eventually([&] { return counter("tap/to_kernel") > 0; }));
  EXPECT_TRUE(Eventually([&] { return counter("tap/from_kernel") > 0; }));
  threads_.clear();
  EXPECT_EQ(device_->interface().counters().arp_requests_sent, 0u);
  EXPECT_EQ(device_->interface().counters().arp_replies_sent, 0u);
}

TEST_F(DeviceKernelTest, TheInterfaceOfAForwardingDeviceHasTheCarrierOfItsPort) {
  Open({.kernel_path = "vtap", .forwards_all = true, .port = "net_af_packet0,iface=vport"}, 1);
  const auto has_carrier = [] { return Shell("ip link show vtap | grep -q LOWER_UP"); };
  EXPECT_TRUE(Eventually(has_carrier));
  ASSERT_TRUE(Shell("ip link set vkern down"));
  EXPECT_TRUE(Eventually([&] { return !has_carrier(); }));
  ASSERT_TRUE(Shell("ip link set vkern up"));
  EXPECT_TRUE(Eventually(has_carrier));
  // It is set only when the port's link changes.
  ASSERT_TRUE(Shell("ip link set vtap carrier off"));
  std::this_thread::sleep_for(std::chrono::nanoseconds(5 * LinkWatch::kIntervalNs));
  EXPECT_FALSE(has_carrier());
}

}  // namespace
}  // namespace pollux::engine
