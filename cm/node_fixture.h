// Two complete nodes on a simulated network, with CM over queue pair 1 and RC queue pairs.
#ifndef POLLUX_CM_NODE_FIXTURE_H_
#define POLLUX_CM_NODE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cm/connection/timeouts.h"
#include "cm/manager.h"
#include "stack/engine/eal.h"
#include "stack/engine/loop/worker.h"
#include "tests/sim/simulation.h"

namespace pollux::cm {
inline constexpr uint64_t kSecond = sim::Simulation::kSecond;
inline constexpr uint16_t kPort = 20049;
inline constexpr uint32_t kFewIds = 4;  // so few that a leak is noticed

// A host with a manager and at most one connection.
class NodeHost {
 public:
  explicit NodeHost(sim::Node* node, const ManagerConfig& config = {.max_ids = kFewIds})
      : address(node->gid()),
        port(&node->port()),
        worker(&node->worker()),
        qp_worker(&node->worker()) {
    auto made = Manager::Create(worker, config);
    if (!made.ok()) {
      ADD_FAILURE() << made.status();
      return;
    }
    manager = *std::move(made);
  }

  void Listen() {
    listener = *manager->CreateId(RDMA_PS_TCP, Accepting());
    ASSERT_TRUE(manager->Listen(listener, kPort).ok());
  }
  EventHandler Accepting() {
    return [this](const Event& event) { OnServer(event); };
  }
  void StartConnect(const Gid& to) {
    seen.clear();
    auto made = manager->CreateId(RDMA_PS_TCP, [this](const Event& event) { OnClient(event); });
    ASSERT_TRUE(made.ok()) << made.status();
    id = *made;
    ASSERT_TRUE(manager->ResolveAddr(id, {to, kPort}, 5000).ok());
  }
  bool Saw(rdma_cm_event_type type) const { return std::ranges::find(seen, type) != seen.end(); }
  // Releases everything that a connection has used. DeallocPd() fails if anything is left.
  void Release() {
    manager->DestroyId(id);
    id = nullptr;
    ASSERT_TRUE(qp_worker->DestroyQp(qp).ok());
    ASSERT_TRUE(qp_worker->DeregMr(region_).ok());
    ASSERT_TRUE(qp_worker->DestroyCq(cq).ok());
    ASSERT_TRUE(qp_worker->DeallocPd(pd_).ok());
  }
  void PostReceive() {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()), 64, region_.key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    const ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(qp->PostRecv(&wr, &bad), 0);
  }
  void PostSend(const std::string& text) {
    std::ranges::copy(text, memory_.begin() + 64);
    ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data() + 64), static_cast<uint32_t>(text.size()),
                region_.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    const ibv_send_wr* bad = nullptr;
    ASSERT_EQ(qp->PostSend(&wr, &bad), 0);
  }
  std::string Received(uint32_t bytes) const {
    return {reinterpret_cast<const char*>(memory_.data()), bytes};
  }

  Gid address;
  sim::FabricPort* port;
  engine::Worker* worker;
  engine::Worker* qp_worker;  // owns the queue pair
  std::unique_ptr<Manager> manager;
  Id* listener = nullptr;
  Id* id = nullptr;
  verbs::QueuePair* qp = nullptr;
  verbs::CompletionQueue* cq = nullptr;
  std::vector<rdma_cm_event_type> seen;
  std::string peer_data;

 private:
  void OnClient(const Event& event) {
    Note(event);
    if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
      EXPECT_TRUE(manager->ResolveRoute(id, 1000).ok());
    } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      MakeQp();
      manager->BindQp(id, qp_worker, qp, IBV_ACCESS_LOCAL_WRITE, [this](absl::Status status) {
        ASSERT_TRUE(status.ok()) << status;
        PostReceive();
        const std::vector<uint8_t> data = {'c', 'l', 'i'};
        ASSERT_TRUE(manager->Connect(id, {.private_data = data}).ok());
      });
    }
  }
  void OnServer(const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      seen.clear();
      id = event.id;
      MakeQp();
      manager->BindQp(id, qp_worker, qp, IBV_ACCESS_LOCAL_WRITE, [this](absl::Status status) {
        ASSERT_TRUE(status.ok()) << status;
        PostReceive();
        const std::vector<uint8_t> data = {'s', 'e', 'r'};
        ASSERT_TRUE(manager->Accept(id, {.private_data = data}).ok());
      });
    }
    Note(event);
  }
  void Note(const Event& event) {
    seen.push_back(event.type);
    const auto& data = event.param.private_data;
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST || event.type == RDMA_CM_EVENT_ESTABLISHED) {
      if (!data.empty() && data[0] != 0) peer_data.assign(data.begin(), data.begin() + 3);
    }
  }
  void MakeQp() {
    pd_ = *qp_worker->AllocPd();
    cq = *qp_worker->CreateCq(16);
    region_ = *qp_worker->RegMr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    verbs::QueuePairInitAttr init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq;
    init.cap.max_send_wr = init.cap.max_recv_wr = 4;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.on_event = [this](ibv_event_type event) {
      if (id != nullptr) manager->Notify(id, event);
    };
    qp = *qp_worker->CreateQp(std::move(init));
  }
  std::array<uint8_t, 128> memory_{};
  memory::ProtectionDomain* pd_ = nullptr;
  memory::MemoryRegion region_;
};

class EndToEndTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }

  void Start(uint64_t seed, const sim::Conditions& conditions,
             const ManagerConfig& server_config = {.max_ids = kFewIds}) {
    world = std::make_unique<sim::Simulation>(seed, conditions);
    client = std::make_unique<NodeHost>(&world->AddNode());
    server = std::make_unique<NodeHost>(&world->AddNode(), server_config);
    server->Listen();
  }
  void Stop() {
    client.reset();
    server.reset();
    EXPECT_EQ(world->Leaks(), "");
    world.reset();
  }
  bool RunUntil(const std::function<bool()>& done) {
    return world->RunUntil(done, world->now_ns() + 200 * sim::Simulation::kSecond);
  }
  bool RunUntilBothSaw(rdma_cm_event_type type) {
    return RunUntil([&] { return client->Saw(type) && server->Saw(type); });
  }
  // Connects, sends a message in each direction, disconnects, and releases everything.
  void OneConnection(bool client_ends) {
    client->StartConnect(server->address);
    ASSERT_TRUE(RunUntilBothSaw(RDMA_CM_EVENT_ESTABLISHED));
    EXPECT_EQ(client->peer_data, "ser");
    EXPECT_EQ(server->peer_data, "cli");
    client->PostSend("from the client");
    server->PostSend("from the server");
    int sent = 0, received = 0;
    const auto count = [&](NodeHost& node) {
      ibv_wc wc{};
      while (node.cq->Poll(1, &wc) == 1) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        ++((wc.opcode & IBV_WC_RECV) != 0 ? received : sent);
      }
    };
    ASSERT_TRUE(RunUntil([&] {
      count(*client);
      count(*server);
      return sent == 2 && received == 2;
    }));
    EXPECT_EQ(client->Received(15), "from the server");
    EXPECT_EQ(server->Received(15), "from the client");
    NodeHost& ends = client_ends ? *client : *server;
    ASSERT_TRUE(ends.manager->Disconnect(ends.id).ok());
    ASSERT_TRUE(RunUntilBothSaw(RDMA_CM_EVENT_DISCONNECTED));
    client->Release();
    server->Release();
    world->RunFor(TimeoutNs(ManagerConfig().packet_lifetime + 1) + kSecond / 100);
  }

  std::unique_ptr<sim::Simulation> world;
  std::unique_ptr<NodeHost> client;
  std::unique_ptr<NodeHost> server;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_NODE_FIXTURE_H_
