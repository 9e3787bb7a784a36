// Two hosts on a fake network, a client and a server, for tests of the connection state machines.
#ifndef POLLUX_CM_CONNECTION_MANAGER_FIXTURE_H_
#define POLLUX_CM_CONNECTION_MANAGER_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cm/connection/fake_network.h"
#include "cm/manager.h"
#include "cm/manager_impl.h"
#include "cm/wire/mad.h"

namespace pollux::cm {

inline constexpr uint16_t kPort = 20049;
inline constexpr uint64_t kSecond = FakeNetwork::kSecond;

struct Seen {
  rdma_cm_event_type type;
  int status;
  std::vector<uint8_t> private_data;
  ConnectionParam param;  // its span is not valid any more
  UdParam ud;             // neither is this one's
};

// One host: a manager, the identifier under test, its queue pair, and the events that it received.
class Host {
 public:
  // `shard`: the manager's place if the host has several. `claims`: of its process, if several
  // share the interface; not owned.
  Host(FakeNetwork* network, uint8_t number, const ManagerConfig& config = {}, Shard shard = {},
       kernel::InterfaceClaims* claims = nullptr)
      : address(Gid::FromIpv4(0xC0000200 + number)),
        network_(network),
        qpn_(number * 0x1000u + shard.index * 0x100u) {
    auto environment = std::make_unique<FakeEnvironment>(network, address, shard, claims);
    env = environment.get();
    manager = std::make_unique<ManagerImpl>(std::move(environment), config);
  }

  void Listen(Placement placement = Placement::kByConnection) {
    listener = *manager->CreateId(port_space, Handler());
    ASSERT_TRUE(manager->Listen(listener, kPort, 0, placement).ok());
  }
  // Creates an identifier that is ready to connect: resolves the address and route and binds a
  // queue pair.
  void Prepare(const Gid& to) {
    ASSERT_NO_FATAL_FAILURE(Resolve(to));
    Bind(id);
    ASSERT_TRUE(network_->RunUntil([&] { return bound; }));
  }
  // The same without a queue pair.
  void Resolve(const Gid& to) {
    events.clear();
    id = *manager->CreateId(port_space, Handler());
    ASSERT_TRUE(manager->ResolveAddr(id, {to, kPort}, 1000).ok());
    ASSERT_TRUE(network_->RunUntil([&] { return Saw(RDMA_CM_EVENT_ADDR_RESOLVED); }));
    ASSERT_TRUE(manager->ResolveRoute(id, 1000).ok());
    ASSERT_TRUE(network_->RunUntil([&] { return Saw(RDMA_CM_EVENT_ROUTE_RESOLVED); }));
  }
  void Bind(Id* to) {
    const bool ud = port_space == RDMA_PS_UDP;
    qps.push_back(std::make_unique<FakeQp>(qpn_++, ud ? IBV_QPT_UD : IBV_QPT_RC));
    bound = false;
    manager->BindQp(to, nullptr, &qps.back()->qp, IBV_ACCESS_REMOTE_READ, [this](absl::Status s) {
      bound = s.ok();
      bind_status = s;
      if (s.ok() && on_bound) on_bound();
    });
  }
  absl::Status Connect(std::vector<uint8_t> private_data = {1, 2, 3}) {
    ConnectionParam out = param;
    out.private_data = private_data;
    return manager->Connect(id, out);
  }
  absl::Status Accept() {
    ConnectionParam out = param;
    const std::vector<uint8_t> private_data = {4, 5, 6, 7};
    out.private_data = private_data;
    return manager->Accept(id, out);
  }
  // Answers CONNECT_REQUEST with an accept.
  void AcceptAll() {
    on_event = [this](const Event& event) {
      if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
      id = event.id;
      Bind(id);
      on_bound = [this] { accept_status = Accept(); };
    };
  }
  EventHandler Handler() {
    return [this](const Event& event) {
      const bool ud = event.id->port_space() == RDMA_PS_UDP;
      const auto& data = ud ? event.ud.private_data : event.param.private_data;
      events.push_back(
          {event.type, event.status, {data.begin(), data.end()}, event.param, event.ud});
      if (on_event) on_event(event);
    };
  }
  bool Saw(rdma_cm_event_type type) const {
    return std::ranges::any_of(events, [&](const Seen& seen) { return seen.type == type; });
  }
  Seen Last() const { return events.empty() ? Seen{} : events.back(); }
  verbs::QueuePair& qp() { return qps.back()->qp; }
  uint64_t drop(MadDrop reason) const { return manager->counters().drop(reason); }

  Gid address;
  rdma_port_space port_space = RDMA_PS_TCP;
  FakeEnvironment* env;
  std::unique_ptr<ManagerImpl> manager;
  Id* listener = nullptr;
  Id* id = nullptr;
  std::vector<std::unique_ptr<FakeQp>> qps;
  std::vector<Seen> events;
  std::function<void(const Event&)> on_event;
  std::function<void()> on_bound;
  ConnectionParam param;
  bool bound = false;
  absl::Status bind_status;
  absl::Status accept_status;

 private:
  FakeNetwork* network_;
  uint32_t qpn_;
};

class ManagerTest : public testing::Test {
 protected:
  // Starts a connection: the client has sent its REQ, which is not delivered yet.
  void Start() {
    server.Listen();
    server.AcceptAll();
    client.Prepare(server.address);
    ASSERT_TRUE(client.Connect().ok());
  }
  bool BothEstablished() {
    return client.Last().type == RDMA_CM_EVENT_ESTABLISHED &&
           server.Last().type == RDMA_CM_EVENT_ESTABLISHED;
  }
  void Establish() {
    Start();
    ASSERT_TRUE(network.RunUntil([&] { return BothEstablished(); }));
  }
  // Drops the first `count` messages of type `attribute`.
  void Lose(Attribute attribute, int count) {
    network.copies_of = [attribute, count](const Datagram& datagram) mutable {
      if (ParseMadHeader(datagram.mad)->attribute != attribute || count == 0) return 1;
      --count;
      return 0;
    };
  }
  template <class T>
  T LastSent() {
    for (auto it = network.log.rbegin(); it != network.log.rend(); ++it) {
      const Mad mad = *ParseMad(it->mad);
      if (const T* message = std::get_if<T>(&mad.message)) return *message;
    }
    ADD_FAILURE() << "none sent";
    return {};
  }
  void Inject(Host& to, const Gid& from, const Message& message) {
    MadBuffer mad;
    EmitMad({}, message, mad);
    to.env->Receive(from, mad);
  }
  // Waits until all connections have ended, and checks that no identifiers are left but the
  // listener.
  void ExpectNothingLeft() {
    network.Run(2000 * kSecond);
    EXPECT_EQ(client.manager->size(), 0u);
    EXPECT_EQ(server.manager->size(), server.listener != nullptr ? 1u : 0u);
  }

  FakeNetwork network;
  Host client{&network, 2};
  Host server{&network, 1};
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_MANAGER_FIXTURE_H_
