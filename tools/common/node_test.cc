// Nodes with several cores, each polled by a thread of its own, joined by rings.
#include "tools/common/node.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "cm/gsi/shard.h"
#include "stack/engine/eal.h"
#include "tests/interop/peer/rping.h"
#include "tests/interop/peer/rping_server.h"

namespace pollux::tools {
namespace {

constexpr uint32_t kServerAddress = 0xC0000201, kClientAddress = 0xC0000202;
constexpr uint16_t kPort = 7174;
constexpr auto kTimeout = std::chrono::seconds(100);  // not an expectation

engine::DeviceOptions DeviceWith(uint32_t workers, uint32_t address) {
  engine::DeviceOptions options;
  options.addresses = {InterfaceAddress::Ipv4(address)};
  options.workers = workers;
  options.gsi_owner = &cm::GsiOwner;
  return options;
}

// A client that pings until it is stopped, on one core of a node.
class Client {
 public:
  Client(Node* node, uint32_t core) : node_(node), core_(core) {
    auto made = node->Run(core, [&] {
      Rping::Options options;
      options.on_done = [this](const absl::Status& status) { done_.set_value(status); };
      return Rping::Connect(&node->worker(core), &node->manager(core),
                            {.address = Gid::FromIpv4(kServerAddress), .port = kPort},
                            std::move(options));
    });
    EXPECT_TRUE(made.ok()) << made.status();
    rping_ = *std::move(made);
  }
  ~Client() {
    node_->Run(core_, [this] { rping_.reset(); });
  }
  uint64_t pings() {
    return node_->Run(core_, [this] { return rping_->pings(); });
  }
  // It disconnects: in the midst of a ping.
  absl::Status Stop() {
    node_->Run(core_, [this] { rping_->Stop(); });
    std::future<absl::Status> done = done_.get_future();
    if (done.wait_for(kTimeout) != std::future_status::ready) {
      return absl::DeadlineExceededError("no answer to DREQ");
    }
    return done.get();
  }

 private:
  Node* const node_;
  const uint32_t core_;
  std::promise<absl::Status> done_;
  std::unique_ptr<Rping> rping_;
};

class NodeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }

  void Start(uint32_t server_cores, uint32_t client_cores) {
    auto pair = engine::Device::OpenPair(DeviceWith(server_cores, kServerAddress),
                                         DeviceWith(client_cores, kClientAddress));
    ASSERT_TRUE(pair.ok()) << pair.status();
    Node::Options options;
    auto server = Node::Start(std::move(pair->first), options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = Node::Start(std::move(pair->second), options);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    servers_.resize(server_cores);
    for (uint32_t core = 0; core < server_cores; ++core) Listen(core);
  }
  void Listen(uint32_t core) {
    auto listening = server_->Run(core, [&] {
      RpingServer::Options options;
      options.local.port = kPort;
      return RpingServer::Listen(&server_->worker(core), &server_->manager(core),
                                 std::move(options));
    });
    ASSERT_TRUE(listening.ok()) << listening.status();
    servers_[core] = *std::move(listening);
  }
  void Unlisten(uint32_t core) {
    server_->Run(core, [&] { servers_[core].reset(); });
  }
  void TearDown() override {
    for (uint32_t core = 0; core < servers_.size(); ++core) Unlisten(core);
    for (const auto& node : {server_.get(), client_.get()}) {
      if (node != nullptr) node->StopPolling();
    }
    // Each device may hold frames of the other's pool.
    for (const auto& node : {server_.get(), client_.get()}) {
      if (node != nullptr) node->device().Close();
    }
  }
  std::vector<uint64_t> Served() {
    std::vector<uint64_t> served(servers_.size());
    server_->RunOnEach([&](uint32_t core) {
      if (servers_[core] != nullptr) served[core] = servers_[core]->served();
    });
    return served;
  }
  // Until each has had so many answers.
  static void AwaitPings(const std::vector<std::unique_ptr<Client>>& clients, uint64_t pings) {
    const auto give_up = std::chrono::steady_clock::now() + kTimeout;
    for (const auto& client : clients) {
      while (client->pings() < pings) {
        ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      }
    }
  }

  std::unique_ptr<Node> server_, client_;
  std::vector<std::unique_ptr<RpingServer>> servers_;
};

TEST_F(NodeTest, ClientsOfAllCoresConnect) {
  ASSERT_NO_FATAL_FAILURE(Start(2, 2));
  EXPECT_EQ(server_->cores(), 2u);
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t core = 0; core < 2; ++core) {
    for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<Client>(client_.get(), core));
  }
  ASSERT_NO_FATAL_FAILURE(AwaitPings(clients, 20));
  EXPECT_EQ(Served(), (std::vector<uint64_t>{4, 4}));
  for (const auto& client : clients) EXPECT_FALSE(absl::IsDeadlineExceeded(client->Stop()));
  clients.clear();
  // Both cores of each have sent and received.
  transport::Counters sum;
  client_->RunOnEach([&](uint32_t core) {
    const transport::Counters& counters = client_->worker(core).counters();
    EXPECT_GT(counters.sent_pkts, 100u);
    EXPECT_GT(counters.rcvd_pkts, 100u);
    sum.sent_pkts += counters.sent_pkts;
  });
  EXPECT_GE(client_->Counters().sent_pkts, sum.sent_pkts);
}

TEST_F(NodeTest, FirstReachableChoosesAnAddressWithARoute) {
  ASSERT_NO_FATAL_FAILURE(Start(1, 1));
  const Gid near = Gid::FromIpv4(kServerAddress), far = Gid::FromIpv4(0xC6336401);
  Gid other_version;
  other_version.raw = {0x20, 0x01, 0x0D, 0xB8};
  EXPECT_EQ(client_->FirstReachable({other_version, far, near}), near);
  EXPECT_EQ(client_->FirstReachable({near, far}), near);
  EXPECT_EQ(client_->FirstReachable({other_version, far}), other_version);
}

// Whichever core a request comes to, the one that listens gets it.
TEST_F(NodeTest, RequestsReachTheOnlyCoreThatListens) {
  ASSERT_NO_FATAL_FAILURE(Start(3, 1));
  Unlisten(0);
  Unlisten(2);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(std::make_unique<Client>(client_.get(), 0));
  ASSERT_NO_FATAL_FAILURE(AwaitPings(clients, 3));
  EXPECT_EQ(Served(), (std::vector<uint64_t>{0, 6, 0}));
  for (const auto& client : clients) EXPECT_FALSE(absl::IsDeadlineExceeded(client->Stop()));
}

TEST_F(NodeTest, WithoutAListenerAConnectIsRejected) {
  ASSERT_NO_FATAL_FAILURE(Start(2, 1));
  Unlisten(0);
  Unlisten(1);
  std::promise<absl::Status> done;
  auto made = client_->Run([&] {
    Rping::Options options;
    options.on_done = [&done](const absl::Status& status) { done.set_value(status); };
    return Rping::Connect(&client_->worker(), &client_->manager(),
                          {.address = Gid::FromIpv4(kServerAddress), .port = kPort},
                          std::move(options));
  });
  ASSERT_TRUE(made.ok()) << made.status();
  std::future<absl::Status> ended = done.get_future();
  ASSERT_EQ(ended.wait_for(kTimeout), std::future_status::ready);
  EXPECT_NE(ended.get().message().find("REJ reason 8"), std::string::npos);
  client_->Run([&] { made->reset(); });
}

TEST_F(NodeTest, TheNumberOfCpusMustMatchTheWorkers) {
  auto pair =
      engine::Device::OpenPair(DeviceWith(2, kServerAddress), DeviceWith(1, kClientAddress));
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(Node::Start(std::move(pair->first), {.cpus = {0}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pollux::tools
