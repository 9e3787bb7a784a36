// Peers that ask for connections and do not go through with it.
#include "cm/connection/half_open.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cm/connection/manager_fixture.h"
#include "cm/connection/timeouts.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/service_id.h"
#include "stack/base/memory_reserve.h"

namespace pollux::cm {
namespace {

constexpr uint64_t kWaitNs = ResendAfterNs(16, 20);  // for the RTU, after each REP
constexpr int kReplies = 16;
constexpr uint32_t kSomeone = 0x0A000000;  // 10.0.0.0, and those that follow

class HalfOpenTest : public ManagerTest {
 protected:
  static constexpr ManagerConfig kBounds = {.max_ids = 600, .max_half_open = 64};

  HalfOpenTest() {
    busy_.Listen();
    // This server accepts each request at once and destroys identifiers that have failed.
    busy_.on_event = [this](const Event& event) {
      Id* const id = event.id;
      if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        qps_.push_back(std::make_unique<FakeQp>(next_qpn_++));
        busy_.manager->BindQp(id, nullptr, &qps_.back()->qp, 0, [this, id](const absl::Status& s) {
          ASSERT_TRUE(s.ok() && busy_.manager->Accept(id, {}).ok());
        });
      } else if (event.type == RDMA_CM_EVENT_UNREACHABLE) {
        given_up_.push_back(id->peer().address);
        busy_.manager->DestroyId(id);
      }
    };
  }
  // Sends a REQ whose sender never answers the REP.
  void Ask(const Gid& from, uint8_t response_timeout = 20, uint8_t retries = 15,
           uint16_t port = kPort) {
    Req req;
    req.local_comm_id = ++asked_;
    req.local_ca_guid = asked_;
    req.local_qpn = asked_ + 2;
    req.local_cm_response_timeout = response_timeout;
    req.max_cm_retries = retries;
    req.service_id = ServiceId{RDMA_PS_TCP, port}.ToWire();
    req.path_mtu = IBV_MTU_1024;
    req.primary.local_gid = from;
    req.primary.remote_gid = busy_.address;
    const CmaHeader cma{
        .version = 0, .source_port = 1, .source = from, .destination = busy_.address};
    cma.Emit(std::span(req.private_data).first<kCmaHeaderBytes>());
    Inject(busy_, from, req);
    network.Run(kGapNs);
  }
  // A connection that the server ends at once, and whose peer answers nothing from then on.
  void AskAndVanish(const Gid& from) {
    Ask(from, 31, 15);
    const Rep rep = LastSent<Rep>();
    Rtu rtu;
    rtu.local_comm_id = rep.remote_comm_id;
    rtu.remote_comm_id = rep.local_comm_id;
    Inject(busy_, from, rtu);
    network.Run(kGapNs);
  }
  // From now on the server ends each connection as soon as it is established, except the client's.
  void EndEstablished() {
    busy_.on_event = [this, serve = busy_.on_event](const Event& event) {
      const bool ends =
          event.type == RDMA_CM_EVENT_ESTABLISHED && event.id->peer().address != client.address;
      ends ? busy_.manager->DestroyId(event.id) : serve(event);
    };
  }
  // While requests come from `next()`, at 10,000 a second, another client connects as quickly as
  // without.
  void ConnectDuringAFlood(const std::function<Gid()>& next) {
    for (int i = 0; i < 2000; ++i) Ask(next());
    client.Prepare(busy_.address);
    ASSERT_TRUE(client.Connect().ok());
    for (int i = 0; i < kAtOnce && !client.Saw(RDMA_CM_EVENT_ESTABLISHED); ++i) Ask(next());
    EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(network.CountSent(Attribute::kReq), 1);
    for (int i = 0; i < 2000; ++i) Ask(next());
    EXPECT_TRUE(busy_.Saw(RDMA_CM_EVENT_ESTABLISHED));
    EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_LE(busy_.manager->size(), kBounds.max_half_open + 3);
  }

  static constexpr uint64_t kGapNs = 100'000;
  static constexpr int kAtOnce = 20;  // 2 ms
  Host busy_{&network, 7, kBounds};
  std::vector<std::unique_ptr<FakeQp>> qps_;
  uint32_t next_qpn_ = 0x10000;
  uint32_t asked_ = 0;
  std::vector<Gid> given_up_;
};

// Whatever time the peer has asked for.
TEST_F(HalfOpenTest, TimesOutSecondsAfterTheLastReply) {
  const uint64_t start_ns = network.now_ns;
  Ask(Gid::FromIpv4(kSomeone), 31, 15);
  ASSERT_TRUE(network.RunUntil([&] { return !given_up_.empty(); }));
  EXPECT_EQ(network.CountSent(Attribute::kRep), kReplies);
  EXPECT_LE(network.now_ns - start_ns, kReplies * kWaitNs + kSecond / 10);
  EXPECT_EQ(LastSent<Rej>().reason, static_cast<uint16_t>(RejectReason::kTimeout));
}

// Neither does an ended connection stay for as long as its peer has asked for.
TEST_F(HalfOpenTest, AnUnansweredDreqTimesOutSecondsAfterTheLastRepetition) {
  EndEstablished();
  const uint64_t start_ns = network.now_ns;
  AskAndVanish(Gid::FromIpv4(kSomeone));
  EXPECT_EQ(busy_.manager->size(), 2u);
  EXPECT_TRUE(network.RunUntil([&] { return busy_.manager->size() == 1; }));
  EXPECT_LE(network.now_ns - start_ns, kReplies * kWaitNs + kSecond);
}

TEST_F(HalfOpenTest, ConnectionsWhoseDreqIsUnansweredKeepNobodyOut) {
  const Gid other = Gid::FromIpv4(kSomeone), busiest = Gid::FromIpv4(kSomeone + 1);
  EndEstablished();
  AskAndVanish(other);
  const Dreq dreq = LastSent<Dreq>();
  for (uint32_t i = 0; i < kBounds.max_ids + 100; ++i) AskAndVanish(busiest);
  EXPECT_LE(busy_.manager->size(), kBounds.max_ids);
  client.Prepare(busy_.address);
  ASSERT_TRUE(client.Connect().ok());
  EXPECT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }, kSecond));
  EXPECT_TRUE(busy_.manager->CreateId(RDMA_PS_TCP, busy_.Handler()).ok());
  // That of an address with few is still there.
  Drep drep;
  drep.local_comm_id = dreq.remote_comm_id;
  drep.remote_comm_id = dreq.local_comm_id;
  Inject(busy_, other, drep);
  EXPECT_EQ(busy_.drop(MadDrop::kUnknownCommId), 0u);
}

// A peer that says it needs longer gets it, once.
TEST_F(HalfOpenTest, AnMraExtendsTheTimeoutOnce) {
  const Gid peer = Gid::FromIpv4(kSomeone);
  Ask(peer);
  const uint64_t start_ns = network.now_ns;
  const Rep rep = LastSent<Rep>();
  Mra mra;
  mra.local_comm_id = rep.remote_comm_id;
  mra.remote_comm_id = rep.local_comm_id;
  mra.message_mraed = static_cast<uint8_t>(AboutMessage::kRep);
  mra.service_timeout = 24;
  while (given_up_.empty() && network.now_ns < start_ns + 1000 * kSecond) {
    Inject(busy_, peer, mra);
    network.Run(kSecond);
  }
  EXPECT_GE(network.now_ns - start_ns, TimeoutNs(24));
  EXPECT_LE(network.now_ns - start_ns, ResendAfterNs(16, 24) + kReplies * kWaitNs + kSecond);
}

TEST_F(HalfOpenTest, TheOldestOfTheAddressWithTheMostIsReplaced) {
  const Gid busiest = Gid::FromIpv4(kSomeone), other = Gid::FromIpv4(kSomeone + 1);
  Ask(other);
  for (uint32_t i = 1; i < kBounds.max_half_open; ++i) Ask(busiest);
  network.Run(kGapNs);
  EXPECT_TRUE(given_up_.empty());
  Ask(other);
  network.Run(kGapNs);
  ASSERT_EQ(given_up_, std::vector<Gid>{busiest});
  EXPECT_EQ(busy_.drop(MadDrop::kHalfOpenFull), 1u);
  // Those that are left go on.
  EXPECT_EQ(busy_.manager->size(), kBounds.max_half_open + 1);
}

TEST_F(HalfOpenTest, WithOnePerAddressTheOldestIsReplaced) {
  for (uint32_t i = 0; i <= kBounds.max_half_open; ++i) Ask(Gid::FromIpv4(kSomeone + i));
  network.Run(kGapNs);
  EXPECT_EQ(given_up_, std::vector<Gid>{Gid::FromIpv4(kSomeone)});
}

// Of one listener too many are its own to give up, though another address has more at another one.
TEST_F(HalfOpenTest, SetMaxHalfOpenLimitsOneListener) {
  constexpr uint32_t kFew = 4;
  Id* const other = *busy_.manager->CreateId(RDMA_PS_TCP, busy_.Handler());
  ASSERT_TRUE(busy_.manager->Listen(other, kPort + 1, 0, Placement::kByConnection).ok());
  busy_.manager->SetMaxHalfOpen(other, kFew);
  for (uint32_t i = 0; i < 2 * kFew; ++i) Ask(Gid::FromIpv4(kSomeone));
  for (uint32_t i = 1; i <= kFew; ++i) Ask(Gid::FromIpv4(kSomeone + i), 20, 15, kPort + 1);
  network.Run(kGapNs);
  EXPECT_TRUE(given_up_.empty());
  Ask(Gid::FromIpv4(kSomeone + kFew + 1), 20, 15, kPort + 1);
  network.Run(kGapNs);
  EXPECT_EQ(given_up_, std::vector<Gid>{Gid::FromIpv4(kSomeone + 1)});
  EXPECT_EQ(busy_.drop(MadDrop::kHalfOpenFull), 1u);
  // One that has come to its end makes room.
  busy_.manager->SetMaxHalfOpen(other, kFew + 1);
  Ask(Gid::FromIpv4(kSomeone + kFew + 2), 20, 15, kPort + 1);
  network.Run(kGapNs);
  EXPECT_EQ(given_up_.size(), 1u);
}

TEST_F(HalfOpenTest, ARequestIsRefusedWhenMemoryIsShort) {
  ASSERT_TRUE(MemoryReserve::Fill());
  {
    const MemoryReserve::ShortageForTest shortage;
    ASSERT_TRUE(MemoryReserve::GiveUpPiece());
    Ask(Gid::FromIpv4(kSomeone));
    EXPECT_EQ(LastSent<Rej>().reason, static_cast<uint16_t>(RejectReason::kNoResources));
    EXPECT_EQ(busy_.manager->size(), 1u);
  }
  Ask(Gid::FromIpv4(kSomeone));
  EXPECT_EQ(busy_.manager->size(), 2u);
}

// Its RTU, on its way, finds nobody; so it is told.
TEST_F(HalfOpenTest, AReplacedClientIsDisconnected) {
  network.copies_of = [](const Datagram& datagram) {
    return ParseMadHeader(datagram.mad)->attribute == Attribute::kRtu ? 0 : 1;
  };
  client.Prepare(busy_.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  for (uint32_t i = 0; i < kBounds.max_half_open; ++i) Ask(Gid::FromIpv4(kSomeone + i));
  network.Run(kGapNs);
  EXPECT_EQ(client.Last().type, RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(HalfOpenTest, AClientConnectsDuringAFloodFromAFewAddresses) {
  ConnectDuringAFlood([this] { return Gid::FromIpv4(kSomeone + asked_ % 3); });
}

TEST_F(HalfOpenTest, AClientConnectsDuringAFloodFromSpoofedAddresses) {
  ConnectDuringAFlood([this] { return Gid::FromIpv4(kSomeone + asked_); });
}

TEST_F(HalfOpenTest, AClientConnectsDuringAFloodToAServerThatOwnsItsQueuePairs) {
  busy_.env->owns_qps = true;
  ConnectDuringAFlood([this] { return Gid::FromIpv4(kSomeone + asked_); });
}

}  // namespace
}  // namespace pollux::cm
