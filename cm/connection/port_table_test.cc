#include "cm/connection/port_table.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "cm/connection/manager_fixture.h"
#include "cm/connection/relisten_grace_queue.h"
#include "cm/wire/service_id.h"
#include "stack/kernel/interface_claims.h"

namespace pollux::cm {
namespace {

constexpr Gid kAny{};
constexpr Gid kFirstGid = Gid::FromIpv4(0xC0000201);
constexpr Gid kSecondGid = Gid::FromIpv4(0xC0000202);
constexpr Gid kIpv6{{0xFD, 1}};

class PortTableTest : public testing::Test {
 protected:
  CmConnection& New(rdma_port_space port_space = RDMA_PS_TCP) {
    made_.push_back(std::make_unique<CmConnection>(nullptr));
    made_.back()->set_port_space(port_space);
    made_.back()->state = State::kListen;
    return *made_.back();
  }

  PortTable table;

 private:
  std::vector<std::unique_ptr<CmConnection>> made_;
};

TEST_F(PortTableTest, ABoundPortConflictsWithItsAddressAndTheWildcard) {
  EXPECT_TRUE(table.Bind(New(), {kFirstGid, 7}).ok());
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 7}).ok());
  EXPECT_FALSE(table.Bind(New(), {kAny, 7}).ok());
  EXPECT_TRUE(table.Bind(New(), {kSecondGid, 7}).ok());
  CmConnection& any = New();
  EXPECT_TRUE(table.Bind(any, {kAny, 8}).ok());
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 8}).ok());
  EXPECT_FALSE(table.Bind(New(), {kAny, 8}).ok());
  table.Release(any);
  EXPECT_TRUE(table.Bind(New(), {kFirstGid, 8}).ok());
}

TEST_F(PortTableTest, APortForIpv6OnlyLeavesIpv4ToOthers) {
  CmConnection& ipv6 = New();
  ipv6.ipv6_only = true;
  CmConnection& any = New();
  ASSERT_TRUE(table.Bind(ipv6, {kAny, 7}).ok());
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), nullptr);
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kIpv6), &ipv6);
  EXPECT_FALSE(table.Bind(New(), {kIpv6, 7}).ok());
  ASSERT_TRUE(table.Bind(any, {kAny, 7}).ok());
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &any);
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kIpv6), &ipv6);
  CmConnection& second = New();
  second.ipv6_only = true;
  EXPECT_FALSE(table.Bind(second, {kAny, 7}).ok());
  EXPECT_FALSE(table.Bind(New(), {kAny, 7}).ok());
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 7}).ok());
  table.Release(any);
  CmConnection& first = New();
  ASSERT_TRUE(table.Bind(first, {kFirstGid, 7}).ok());
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &first);
  // The other way round.
  ASSERT_TRUE(table.Bind(New(), {kFirstGid, 8}).ok());
  EXPECT_TRUE(table.Bind(second, {kAny, 8}).ok());
}

TEST_F(PortTableTest, APortIsSharedWithReuseaddrWhileNobodyListens) {
  CmConnection& first = New();
  CmConnection& second = New();
  for (CmConnection* connection : {&first, &second}) {
    connection->state = State::kIdle;
    connection->reuses_address = true;
    ASSERT_TRUE(table.Bind(*connection, {kFirstGid, 7}).ok());
  }
  EXPECT_FALSE(table.IsAlone(first));
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 7}).ok()) << "it does not say so";
  table.Release(second);
  EXPECT_TRUE(table.IsAlone(first));
  first.state = State::kListen;
  EXPECT_FALSE(table.Bind(second, {kFirstGid, 7}).ok());
  EXPECT_FALSE(table.Bind(second, {kAny, 7}).ok());
  EXPECT_TRUE(table.Bind(second, {kSecondGid, 7}).ok());
  EXPECT_TRUE(table.IsAlone(second));
}

TEST_F(PortTableTest, PortSpacesAreIndependent) {
  CmConnection& tcp = New(RDMA_PS_TCP);
  CmConnection& udp = New(RDMA_PS_UDP);
  CmConnection& ib = New(RDMA_PS_IB);
  EXPECT_TRUE(table.Bind(tcp, {kAny, 7}).ok());
  EXPECT_TRUE(table.Bind(udp, {kAny, 7}).ok());
  EXPECT_TRUE(table.Bind(ib, {kAny, 7}).ok());
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &tcp);
  EXPECT_EQ(table.FindListener({RDMA_PS_UDP, 7}, kFirstGid), &udp);
  EXPECT_EQ(table.FindListener({RDMA_PS_IB, 7}, kFirstGid), &ib);
  EXPECT_EQ(table.FindListener({RDMA_PS_IB, 8}, kFirstGid), nullptr);
}

TEST_F(PortTableTest, ListenersAreFoundByAddress) {
  CmConnection& first = New();
  ASSERT_TRUE(table.Bind(first, {kFirstGid, 7}).ok());
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &first);
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kSecondGid), nullptr);
  first.state = State::kIdle;  // bound, and does not listen
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), nullptr);
}

TEST_F(PortTableTest, EveryEphemeralPortIsFoundOnce) {
  Random random(1);
  std::vector<bool> seen(65536);
  CmConnection* last = nullptr;
  for (uint32_t i = 0; i < PortTable::kEphemerals; ++i) {
    last = &New();
    last->state = State::kIdle;
    last->reuses_address = true;  // which says nothing of ports that are chosen
    ASSERT_TRUE(table.BindEphemeral(*last, kAny, random).ok());
    const uint16_t port = last->local().port;
    EXPECT_GE(port, PortTable::kFirstEphemeral);
    EXPECT_FALSE(seen[port]);
    seen[port] = true;
  }
  EXPECT_FALSE(table.BindEphemeral(New(), kAny, random).ok());
  EXPECT_TRUE(table.BindEphemeral(New(RDMA_PS_UDP), kAny, random).ok());
  table.Release(*last);
  table.Release(*last);  // nothing is left to give up
  EXPECT_TRUE(table.BindEphemeral(New(), kAny, random).ok());
  EXPECT_EQ(table.size(), PortTable::kEphemerals + 1);
}

// Two processes on an interface; this test is both.
class SharedPortsTest : public ManagerTest {
 protected:
  static constexpr uint64_t kService = ServiceId{RDMA_PS_TCP, kPort}.ToWire();

  std::unique_ptr<kernel::InterfaceClaims> Join() {
    return kernel::InterfaceClaims::Join(index_, 1, 2045, &network.random).value();
  }
  SocketAddress Own(uint16_t port) const { return {host_.address, port}; }

  // No interface has such an index.
  const uint32_t index_ = 0x80000000u | static_cast<uint32_t>(getpid());
  const std::unique_ptr<kernel::InterfaceClaims> claims_ = Join();
  const std::unique_ptr<kernel::InterfaceClaims> other_ = Join();
  Host host_{&network, 3, {}, {}, claims_.get()};
};

TEST_F(SharedPortsTest, APortOfAnotherProcessIsInUse) {
  ASSERT_TRUE(other_->ClaimService(kService).ok());
  Id* const id = *host_.manager->CreateId(RDMA_PS_TCP, host_.Handler());
  EXPECT_TRUE(absl::IsAlreadyExists(host_.manager->BindAddr(id, Own(kPort))));
  other_->ReleaseService(kService);
  EXPECT_TRUE(host_.manager->BindAddr(id, Own(kPort)).ok());
  EXPECT_TRUE(other_->OtherTakesService(kService));
  host_.manager->DestroyId(id);
  EXPECT_FALSE(other_->OtherTakesService(kService));
}

// Otherwise another process would reject a repetition of the request.
TEST_F(SharedPortsTest, AServiceRemainsThisProcessesUntilItsLastRequestIsEstablished) {
  host_.Listen();
  host_.AcceptAll();
  Lose(Attribute::kRep, 1);
  client.Prepare(host_.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return network.CountSent(Attribute::kRep) == 1; }));
  host_.manager->DestroyId(host_.listener);
  EXPECT_TRUE(other_->OtherTakesService(kService));
  ASSERT_TRUE(network.RunUntil([&] { return host_.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  EXPECT_FALSE(other_->OtherTakesService(kService));
}

TEST_F(SharedPortsTest, ARequestThatIsRejectedReleasesTheService) {
  host_.Listen();
  host_.on_event = [this](const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) host_.id = event.id;
  };
  client.Prepare(host_.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return host_.id != nullptr; }));
  host_.manager->DestroyId(host_.listener);
  EXPECT_TRUE(other_->OtherTakesService(kService));
  host_.manager->DestroyId(host_.id);
  network.Run(2000 * kSecond);
  EXPECT_FALSE(other_->OtherTakesService(kService));
}

// Otherwise another process would reject a request that comes between two listeners.
TEST_F(SharedPortsTest, AServiceRemainsThisProcessesForAWhileAfterItsListener) {
  constexpr uint64_t kGrace = 2 * kSecond;
  Host host{&network, 4, {.relisten_ns = kGrace}, {}, claims_.get()};
  const auto listen_and_end = [&host] {
    host.Listen();
    host.manager->DestroyId(host.listener);
    host.listener = nullptr;
  };
  listen_and_end();
  EXPECT_TRUE(other_->OtherTakesService(kService));
  EXPECT_TRUE(other_->OtherTakesService(ServiceId{RDMA_PS_UDP, kPort}.ToWire()));
  network.Run(kGrace / 2);
  listen_and_end();
  network.Run(2 * kGrace - kSecond / 10);
  EXPECT_TRUE(other_->OtherTakesService(kService));
  EXPECT_TRUE(other_->OtherTakesService(ServiceId{RDMA_PS_IB, kPort}.ToWire()));
  network.Run(kSecond / 5);
  for (const rdma_port_space space : {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB}) {
    EXPECT_FALSE(other_->OtherTakesService(ServiceId{space, kPort}.ToWire())) << space;
  }
  listen_and_end();
  host.manager.reset();
  EXPECT_FALSE(other_->OtherTakesService(kService));
}

// As with adapters, the port is free at once; its requests are then the other process's.
TEST_F(SharedPortsTest, AnotherProcessMayListenWhereAListenerHasEnded) {
  Host host{&network, 4, {.relisten_ns = 2 * kSecond}, {}, claims_.get()};
  host.Listen();
  host.manager->DestroyId(host.listener);
  host.listener = nullptr;
  client.Prepare(host.address);
  ASSERT_TRUE(client.Connect().ok());
  network.Run(kSecond);
  ASSERT_TRUE(other_->ClaimService(kService).ok());
  Lose(Attribute::kReq, 100);  // its repetitions are the other process's
  network.Run(10 * kSecond);
  EXPECT_EQ(network.CountSent(Attribute::kRej), 0u);
}

// Each listener that is remembered costs descriptors.
TEST_F(SharedPortsTest, OnlyTheLastEndedListenersKeepTheirServices) {
  Host host{&network, 4, {.relisten_ns = kSecond}, {}, claims_.get()};
  const auto service = [](uint16_t port) { return ServiceId{RDMA_PS_TCP, port}.ToWire(); };
  for (uint16_t i = 0; i <= RelistenGraceQueue::kMaxEnded; ++i) {
    Id* const id = *host.manager->CreateId(RDMA_PS_TCP, host.Handler());
    ASSERT_TRUE(host.manager->Listen(id, kPort + i).ok());
    host.manager->DestroyId(id);
  }
  EXPECT_FALSE(other_->OtherTakesService(service(kPort)));
  EXPECT_TRUE(other_->OtherTakesService(service(kPort + 1)));
  EXPECT_TRUE(other_->OtherTakesService(service(kPort + RelistenGraceQueue::kMaxEnded)));
}

// A claim costs a descriptor, and clients have many connections.
TEST_F(SharedPortsTest, AnEphemeralPortOfAClientIsNotClaimed) {
  Id* const id = *host_.manager->CreateId(RDMA_PS_TCP, host_.Handler());
  ASSERT_TRUE(host_.manager->BindAddr(id, Own(0)).ok());
  const uint64_t service = ServiceId{RDMA_PS_TCP, id->local().port}.ToWire();
  EXPECT_TRUE(other_->OtherTakesService(service)) << "it may listen";
  host_.env->resolvable = false;
  ASSERT_TRUE(host_.manager->ResolveAddr(id, {client.address, kPort}, 10).ok());
  EXPECT_FALSE(other_->OtherTakesService(service));
  network.Run(kSecond);
  ASSERT_TRUE(host_.manager->Listen(id, 0, 0, Placement::kByConnection).ok());
  EXPECT_TRUE(other_->OtherTakesService(service));
}

// The other process may have begun to listen there meanwhile.
TEST_F(SharedPortsTest, AnEphemeralPortWhereAnotherProcessListensIsInUse) {
  Id* const id = *host_.manager->CreateId(RDMA_PS_TCP, host_.Handler());
  ASSERT_TRUE(host_.manager->BindAddr(id, Own(0)).ok());
  const uint64_t service = ServiceId{RDMA_PS_TCP, id->local().port}.ToWire();
  host_.env->resolvable = false;
  ASSERT_TRUE(host_.manager->ResolveAddr(id, {client.address, kPort}, 10).ok());
  network.Run(kSecond);
  ASSERT_TRUE(other_->ClaimService(service).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(host_.manager->Listen(id, 0, 0, Placement::kByConnection)));
  other_->ReleaseService(service);
  EXPECT_TRUE(host_.manager->Listen(id, 0, 0, Placement::kByConnection).ok());
}

TEST_F(SharedPortsTest, IsKeptWhileAnIdentifierBecomesIpv6Only) {
  Id* const id = *host_.manager->CreateId(RDMA_PS_TCP, host_.Handler());
  ASSERT_TRUE(host_.manager->BindAddr(id, {Gid{}, kPort}).ok());
  ASSERT_TRUE(host_.manager->SetIpv6Only(id, true).ok());
  EXPECT_TRUE(other_->OtherTakesService(kService));
}

TEST_F(SharedPortsTest, WithoutADescriptorThePortIsNotSaidToBeInUse) {
  // First calls may need descriptors for the sanitizer.
  Id* const other = *host_.manager->CreateId(RDMA_PS_TCP, host_.Handler());
  EXPECT_TRUE(host_.manager->BindAddr(other, Own(0)).ok());
  Id* const id = *host_.manager->CreateId(RDMA_PS_TCP, host_.Handler());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status chosen = host_.manager->BindAddr(id, Own(0));
  const absl::Status given = host_.manager->BindAddr(id, Own(kPort));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_FALSE(chosen.ok() || absl::IsAlreadyExists(chosen)) << chosen;
  EXPECT_FALSE(given.ok() || absl::IsAlreadyExists(given)) << given;
}

}  // namespace
}  // namespace pollux::cm
