// Two workers on threads of their own, with traffic between them and control calls from a third.
// Under --config=tsan it looks for data races between them.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "stack/engine/eal.h"
#include "stack/engine/loop/traffic_for_test.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/polling/progress_thread.h"
#include "stack/ip/interface.h"

namespace pollux::engine {
namespace {

constexpr int kControlRounds = 100;

// A worker with its port, made and destroyed by the test, polled by a thread of its own in between.
struct Host {
  Host(uint8_t number, Lane* in, Lane* out) : link({in}, out) {
    WorkerConfig config;
    config.max_queue_pairs = 64;
    config.seed[0] = number;
    config.start_ns = Clock().NowNs();
    worker = Worker::Create(config).value();
    link.UsePool(worker->packet_pool());
    ip::InterfaceConfig at;
    at.mac = {2, 0, 0, 0, 0, number};
    at.addresses = {InterfaceAddress::Ipv4(0xC0000200u + number, 24)};
    at.mtu = 4300;  // path MTU 4096
    interface = std::make_unique<ip::Interface>(at);
    worker->AddPort(interface.get(), &link);
  }
  Gid gid() const { return interface->config().addresses[0].address; }

  CopyLink link;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<ip::Interface> interface;
  std::unique_ptr<ProgressThread> thread;
};

TEST(TwoWorkersTest, TrafficRunsBothWaysDuringControlCalls) {
  ASSERT_TRUE(InitEal({.memory_mib = 256}).ok());
  Lane there, back;
  Host hosts[] = {Host(1, &back, &there), Host(2, &there, &back)};
  std::unique_ptr<End> ends[2];
  for (int i = 0; i < 2; ++i) {
    Worker* worker = hosts[i].worker.get();
    auto started =
        ProgressThread::Start({}, [worker](uint64_t now_ns) { return worker->Poll(now_ns); });
    ASSERT_TRUE(started.ok()) << started.status();
    hosts[i].thread = *std::move(started);
    ends[i] = On(*worker, [&] { return std::make_unique<End>(*worker); });
  }
  for (int i = 0; i < 2; ++i) {
    const End& peer = *ends[1 - i];
    EXPECT_TRUE(On(*hosts[i].worker,
                   [&] { return ends[i]->Start(hosts[1 - i].gid(), peer.qpn(), peer.target()); }));
  }
  for (int round = 0; round < kControlRounds; ++round) {
    for (const Host& host : hosts) {
      EXPECT_TRUE(On(*host.worker, [&host] { return MakeAndDestroy(*host.worker); }));
    }
  }
  for (const auto& end : ends) {
    while (end->done() < kOperations && !end->failed()) std::this_thread::yield();
    EXPECT_FALSE(end->failed());
  }
  for (int i = 0; i < 2; ++i) {
    On(*hosts[i].worker, [&] {
      ends[i].reset();
      return true;
    });
  }
  for (Host& host : hosts) host.thread->Stop();
}

}  // namespace
}  // namespace pollux::engine
