// Two workers that share one port, each on a thread of its own: every packet arrives on the queue
// of the first. Under --config=tsan it looks for data races between them.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "stack/engine/loop/traffic_for_test.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/polling/progress_thread.h"
#include "stack/io/steering/steering.h"
#include "stack/ip/interface.h"

namespace pollux::engine {
namespace {

constexpr uint32_t kWorkers = 2;

// One of the workers of a host, with all that it has of the port.
struct WorkerPort {
  // `link` is null where the port has no queue for it; `rings` where it shares the port with
  // nobody.
  WorkerPort(uint8_t host, uint32_t index, CopyLink* link, io::SteeringRings* rings) {
    WorkerConfig config;
    config.index = index;
    config.max_queue_pairs = 64;
    config.seed[0] = host;
    config.start_ns = Clock().NowNs();
    worker = Worker::Create(config).value();
    if (link != nullptr) link->UsePool(worker->packet_pool());
    ip::InterfaceConfig at;
    at.mac = {2, 0, 0, 0, 0, host};
    at.addresses = {InterfaceAddress::Ipv4(0xC0000200u + host, 24)};
    at.mtu = 4300;  // path MTU 4096
    at.answers = index == 0;
    interface.emplace(at);
    if (rings == nullptr) {
      worker->AddPort(&*interface, link);
      return;
    }
    steering.emplace(io::RxClassifier{.workers = rings->workers()}, index, link,
                     worker->packet_pool(), rings);
    worker->AddPort(&*interface, &*steering, "", &*steering);
  }
  void Start() {
    thread = ProgressThread::Start({}, [polled = worker.get()](uint64_t now_ns) {
               return polled->Poll(now_ns);
             }).value();
  }
  Gid gid() const { return interface->config().addresses[0].address; }
  std::unique_ptr<End> MakeEnd() {
    return On(*worker, [this] { return std::make_unique<End>(*worker); });
  }
  void Connect(End& end, const WorkerPort& peer, const End& peer_end) {
    EXPECT_TRUE(
        On(*worker, [&] { return end.Start(peer.gid(), peer_end.qpn(), peer_end.target()); }));
  }
  void Destroy(std::unique_ptr<End> end) {
    On(*worker, [&end] {
      end.reset();
      return true;
    });
  }

  std::unique_ptr<Worker> worker;
  std::optional<ip::Interface> interface;
  std::optional<io::Steering> steering;
  std::unique_ptr<ProgressThread> thread;
};

// How many queues the port of the two workers has.
class SharedPortTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SharedPortTest, BothWorkersReceiveThroughOneQueue) {
  ASSERT_TRUE(InitEal({.memory_mib = 256}).ok());
  Lane to_server;
  Lane to_client[kWorkers];
  CopyLink client_link({&to_client[0], &to_client[1]}, &to_server);
  CopyLink first_queue({&to_server}, &to_client[0]);
  CopyLink second_queue({}, &to_client[1]);
  auto rings = io::SteeringRings::Create(kWorkers, GetParam()).value();
  WorkerPort client(1, 0, &client_link, nullptr);
  WorkerPort servers[] = {WorkerPort(2, 0, &first_queue, rings.get()),
                          WorkerPort(2, 1, GetParam() > 1 ? &second_queue : nullptr, rings.get())};
  client.Start();
  for (WorkerPort& server : servers) server.Start();
  std::unique_ptr<End> client_ends[kWorkers], server_ends[kWorkers];
  for (uint32_t i = 0; i < kWorkers; ++i) {
    client_ends[i] = client.MakeEnd();
    server_ends[i] = servers[i].MakeEnd();
    EXPECT_EQ(QpnLayout{}.worker(server_ends[i]->qpn()), i);
  }
  for (uint32_t i = 0; i < kWorkers; ++i) {
    client.Connect(*client_ends[i], servers[i], *server_ends[i]);
    servers[i].Connect(*server_ends[i], client, *client_ends[i]);
  }
  for (uint32_t i = 0; i < kWorkers; ++i) {
    for (const auto* end : {&client_ends[i], &server_ends[i]}) {
      while ((*end)->done() < kOperations && !(*end)->failed()) std::this_thread::yield();
      EXPECT_FALSE((*end)->failed());
    }
  }
  for (uint32_t i = 0; i < kWorkers; ++i) {
    client.Destroy(std::move(client_ends[i]));
    servers[i].Destroy(std::move(server_ends[i]));
  }
  client.thread->Stop();
  for (WorkerPort& server : servers) server.thread->Stop();
  // Whichever has stopped first: what is under way between the two arrives.
  const Clock clock;
  for (bool busy = true; busy;) {
    busy = false;
    for (WorkerPort& server : servers) busy |= server.worker->Poll(clock.NowNs());
  }

  const io::SteeringCounters& first = servers[0].steering->counters();
  const io::SteeringCounters& second = servers[1].steering->counters();
  EXPECT_GT(first.kept, kOperations);
  EXPECT_GT(first.handed_over, kOperations);
  EXPECT_EQ(second.received, 0u) << "nothing arrives on its queue";
  EXPECT_EQ(second.by_ring, first.handed_over);
  EXPECT_EQ(second.sent_by_ring > 0, GetParam() == 1);
  EXPECT_EQ(first.carried, second.sent_by_ring);
  for (WorkerPort& server : servers) server.interface->Clear();
  rings->Clear();
}

INSTANTIATE_TEST_SUITE_P(Queues, SharedPortTest, ::testing::Values(1u, 2u));

}  // namespace
}  // namespace pollux::engine
