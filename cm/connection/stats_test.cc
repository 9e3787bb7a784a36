#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cm/connection/connection.h"
#include "cm/connection/manager_fixture.h"

namespace pollux::cm {
namespace {

class CmStatsTest : public ManagerTest {
 protected:
  struct Told {
    const Id* id;
    std::string why;
    std::string log;
  };
  void Watch(Host& host, std::vector<Told>* told) {
    host.manager->SetFailureHandler([&host, told](const Id& id, const std::string& why) {
      told->push_back({&id, why, host.manager->FlightLog(id)});
    });
  }
  std::map<std::string, Stats::Value> Fields(Host& host, const char* topic,
                                             std::optional<uint64_t> object = {}) {
    Stats stats;
    EXPECT_TRUE(host.manager->OnStatsQuery({.topic = topic, .object = object}, &stats));
    return {stats.fields().begin(), stats.fields().end()};
  }
  std::vector<uint64_t> List(Host& host, std::optional<uint64_t> after = {}) {
    Stats stats;
    EXPECT_TRUE(host.manager->OnStatsQuery({.topic = "connections", .object = after}, &stats));
    EXPECT_EQ(stats.shape(), Stats::Shape::kNumbers);
    return stats.numbers();
  }
  static bool Has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(CmStatsTest, MessageCountersAreReported) {
  Establish();
  EXPECT_EQ(std::get<uint64_t>(Fields(client, "cm")["cm_tx_msgs/req"]), 1u);
  EXPECT_EQ(std::get<uint64_t>(Fields(server, "cm")["cm_rx_msgs/req"]), 1u);
  Stats none;
  EXPECT_FALSE(client.manager->OnStatsQuery({.topic = "port"}, &none));
}

TEST_F(CmStatsTest, EachConnectionIsReportedWithItsFields) {
  EXPECT_TRUE(List(client).empty());
  Establish();
  network.now_ns += 3 * kSecond;
  const std::vector<uint64_t> ids = List(client);
  ASSERT_EQ(ids.size(), 1u);
  auto told = Fields(client, "connection", ids[0]);
  EXPECT_EQ(std::get<std::string>(told["state"]), "ESTABLISHED");
  EXPECT_EQ(std::get<std::string>(told["port_space"]), "RDMA_PS_TCP");
  EXPECT_EQ(std::get<std::string>(told["peer"]), "192.0.2.1:20049");
  EXPECT_EQ(std::get<uint64_t>(told["qpn"]), client.qp().qpn().value);
  EXPECT_EQ(std::get<uint64_t>(told["peer_qpn"]), server.qp().qpn().value);
  EXPECT_EQ(std::get<uint64_t>(told["path_mtu"]), 4096u);
  EXPECT_GE(std::get<uint64_t>(told["age_ms"]), 3000u);
  EXPECT_LT(std::get<uint64_t>(told["age_ms"]), 4000u);
  EXPECT_EQ(List(server).size(), 2u) << "the listener too";
  Stats none;
  EXPECT_FALSE(client.manager->OnStatsQuery({.topic = "connection"}, &none));
  EXPECT_FALSE(client.manager->OnStatsQuery({.topic = "connection", .object = ids[0] ^ 1}, &none));
  EXPECT_FALSE(
      client.manager->OnStatsQuery({.topic = "connection", .object = ids[0] | 1ull << 32}, &none));
}

TEST_F(CmStatsTest, AListContinuesAfterTheGivenIdentifier) {
  constexpr size_t kIds = Stats::kMaxItems + 3;
  for (size_t i = 0; i < kIds; ++i) {
    ASSERT_TRUE(client.manager->CreateId(RDMA_PS_TCP, client.Handler()).ok());
  }
  const std::vector<uint64_t> first = List(client);
  ASSERT_EQ(first.size(), Stats::kMaxItems);
  const std::vector<uint64_t> rest = List(client, first.back());
  EXPECT_EQ(rest.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(first));
  EXPECT_GT(rest.front(), first.back());
  EXPECT_TRUE(List(client, rest.back()).empty());
}

TEST_F(CmStatsTest, ASilentPeerIsReportedAsAFailure) {
  std::vector<Told> told;
  Watch(client, &told);
  Lose(Attribute::kReq, 1000);
  Start();
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_UNREACHABLE); }));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].id, client.id);
  EXPECT_TRUE(Has(told[0].why, "RDMA_CM_EVENT_UNREACHABLE (Connection timed out)")) << told[0].why;
  EXPECT_TRUE(Has(told[0].log, "-> CM REQ")) << told[0].log;
  EXPECT_TRUE(Has(told[0].log, "-> CM REJ, timeout")) << told[0].log;
}

TEST_F(CmStatsTest, DestroyingAConnectingIdentifierIsReportedAsAFailure) {
  std::vector<Told> told;
  Watch(client, &told);
  Lose(Attribute::kReq, 1000);
  Start();
  client.manager->DestroyId(client.id);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(Has(told[0].why, "given up")) << told[0].why;
}

TEST_F(CmStatsTest, ARejectionByTheConsumerIsNotAFailure) {
  std::vector<Told> told;
  Watch(client, &told);
  server.Listen();
  server.on_event = [&](const Event& event) {
    EXPECT_TRUE(server.manager->Reject(event.id, {}).ok());
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_TRUE(told.empty());
  EXPECT_TRUE(Has(client.manager->FlightLog(*client.id), "<- CM REJ, rejected by the consumer"))
      << client.manager->FlightLog(*client.id);
}

TEST_F(CmStatsTest, ARejectionForLackOfResourcesIsAFailure) {
  std::vector<Told> told;
  Watch(client, &told);
  server.Listen();
  server.on_event = [&](const Event& event) {
    EXPECT_TRUE(server.manager->Reject(event.id, {}, RejectReason::kNoResources).ok());
  };
  client.Prepare(server.address);
  ASSERT_TRUE(client.Connect().ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_REJECTED); }));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(Has(told[0].why, "RDMA_CM_EVENT_REJECTED")) << told[0].why;
}

TEST_F(CmStatsTest, AFailedQueuePairIsReportedOnce) {
  std::vector<Told> told;
  Watch(client, &told);
  Establish();
  const transport::FlightEntry lost{
      .kind = transport::FlightKind::kFailed, .code = IBV_WC_RETRY_EXC_ERR, .count = 1};
  client.manager->OnQpFailed(client.qp().qpn(), IBV_WC_RETRY_EXC_ERR, {lost});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].id, client.id);
  EXPECT_TRUE(Has(told[0].why, "transport retry counter exceeded")) << told[0].why;
  for (const char* part : {"-> CM REQ", "<- CM REP", "-> CM RTU", "RDMA_CM_EVENT_ESTABLISHED"}) {
    EXPECT_TRUE(Has(told[0].log, part)) << part << "\n" << told[0].log;
  }
  // Nor again when nobody answers the DREQ.
  Lose(Attribute::kDreq, 1000);
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_DISCONNECTED); }));
  EXPECT_EQ(told.size(), 1u);
  client.manager->OnQpFailed(Qpn{0x999}, IBV_WC_RETRY_EXC_ERR, {});
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(CmStatsTest, AnOrderlyDisconnectIsNotReportedAsAFailure) {
  std::vector<Told> told;
  Watch(client, &told);
  Watch(server, &told);
  Establish();
  ASSERT_TRUE(client.manager->Disconnect(client.id).ok());
  ASSERT_TRUE(network.RunUntil([&] { return client.Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT); }));
  EXPECT_TRUE(told.empty());
}

TEST(StateNameTest, StatesHaveTheirNames) {
  EXPECT_STREQ(StateName(State::kIdle), "IDLE");
  EXPECT_STREQ(StateName(State::kEstablished), "ESTABLISHED");
  EXPECT_STREQ(StateName(State::kTimeWait), "TIMEWAIT");
  EXPECT_STREQ(StateName(State::kClosed), "CLOSED");
}

}  // namespace
}  // namespace pollux::cm
