// What costs a connection: memory that cannot be fenced, messages that cannot be posted, and memory
// that cannot be offered. How messages reach the role: when they arrive, or by Poll().
#include "rpcrdma/connection/connection.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "rpcrdma/mirror_for_test.h"
#include "stack/base/planted_fault.h"
#include "tests/sim/connect.h"

namespace pollux::rpcrdma {
namespace {

class ConnectionTest : public MirrorTest {
 protected:
  Wakeup poller;
  std::unique_ptr<Connection> Make(const ConnectionConfig& config = {}) {
    StartSimulation();
    auto connection = Connection::Create(&nodes[0]->worker(), &poller, config, nullptr);
    EXPECT_TRUE(connection.ok()) << connection.status();
    return *std::move(connection);
  }
};

// RFC 8166 section 4.5.4
TEST_F(ConnectionTest, AFailedDeregistrationBreaksTheConnection) {
  const std::unique_ptr<Connection> connection = Make();
  uint8_t bytes[8] = {};
  const auto region = connection->Register(bytes, sizeof(bytes), IBV_ACCESS_REMOTE_READ);
  ASSERT_TRUE(region.ok());
  connection->Deregister(*region);
  EXPECT_FALSE(connection->broken());
  connection->Deregister(*region);
  EXPECT_TRUE(connection->broken());
}

// RFC 8166 section 4.5.4: the same of what a peer may invalidate, once or not at all.
TEST_F(ConnectionTest, InvalidationAfterDeregistrationBreaksTheConnection) {
  const std::unique_ptr<Connection> connection = Make();
  uint8_t bytes[8] = {};
  const auto region =
      connection->RegisterInvalidatable(bytes, sizeof(bytes), IBV_ACCESS_REMOTE_READ);
  ASSERT_TRUE(region.ok());
  connection->Invalidate(*region);
  connection->Invalidate(*region);
  connection->Deregister(*region);
  EXPECT_FALSE(connection->broken());
  connection->Invalidate(*region);
  EXPECT_TRUE(connection->broken());
}

// RFC 8166 section 4.5.4: nothing can be posted before the connection is made.
TEST_F(ConnectionTest, AFailedPostBreaksTheConnection) {
  const std::unique_ptr<Connection> connection = Make();
  connection->PostSend(connection->send_buffer(0).data(), 4, 0, true);
  EXPECT_TRUE(connection->broken());
}

TEST_F(ConnectionTest, AFailedPostTakesNoSendRoom) {
  const std::unique_ptr<Connection> connection = Make({.send_queue = 1});
  EXPECT_EQ(connection->send_room(), 1u);
  connection->MarkBroken();
  connection->PostSend(connection->send_buffer(0).data(), 4, 0, true);
  EXPECT_EQ(connection->send_room(), 1u);
}

// RFC 8166 section 4.5.4: a call whose memory cannot be offered fails, and no other.
TEST_F(ConnectionTest, ACallWithoutAFreeRegionFailsAlone) {
  StartSimulation();
  StartServer();
  StartClient({.credits = 1});
  ConnectClient();
  auto taken = std::make_unique<AllRegions>(&nodes[0]->worker());
  EXPECT_EQ(Get(10'000, 10'000).code(), absl::StatusCode::kResourceExhausted);
  // One region is left of the two that a long call takes.
  taken->GiveOneBack();
  const std::vector<uint8_t> arguments(20'000);
  std::vector<uint8_t> reply_buffer(oncrpc::kReplyHeaderBytes + arguments.size());
  const oncrpc::CallRequest echo{.procedure = kEcho,
                                 .arguments = arguments,
                                 .reply_buffer = absl::MakeSpan(reply_buffer),
                                 .max_result_bytes = static_cast<uint32_t>(arguments.size())};
  EXPECT_EQ(Run(echo).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client->advertised_regions(), 0u);
  // The same of one that waits for credit.
  std::optional<absl::Status> held, waited;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { held = s; })
          .ok());
  ASSERT_TRUE(client->Call(echo, [&](absl::Status s, const oncrpc::Reply*) { waited = s; }).ok());
  ASSERT_TRUE(RunUntil([this] { return !server->held.empty(); }));
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return waited.has_value(); }));
  EXPECT_TRUE(held->ok()) << *held;
  EXPECT_EQ(waited->code(), absl::StatusCode::kResourceExhausted);
  taken.reset();
  EXPECT_TRUE(Get(10'000, 10'000).ok());
  Echo(20'000);
  EXPECT_FALSE(ended.has_value());
}

// RFC 8797 section 4.1
TEST_F(ConnectionTest, LocalPrivateDataMatchesTheOptions) {
  const PrivateData data =
      Make({.send_bytes = 2048, .receive_bytes = 8192, .remote_invalidation = false})
          ->LocalPrivateData();
  EXPECT_EQ(data.send_bytes, 2048u);
  EXPECT_EQ(data.receive_bytes, 8192u);
  EXPECT_FALSE(data.remote_invalidation);
}

// Two connected ends, whose roles record what they get. The path MTU is 1024.
class ArrivalTest : public testing::Test {
 protected:
  struct End : Connection::Role {
    void OnMessage(const Connection::Arrival& arrival) override {
      values.push_back(arrival.message.front());
      in_packet.push_back(arrival.buffer != nullptr);
      for (uint8_t byte : arrival.message) EXPECT_EQ(byte, values.back());
      if (on_message) return on_message(arrival);
      connection->Repost(arrival.receive);
    }
    void OnSent(uint32_t /*cookie*/) override { ++sent; }
    void OnFailed(uint32_t /*cookie*/, ibv_wc_status /*status*/) override {}
    void Send(uint8_t value, uint32_t bytes = 100, bool hurried = true) {
      const uint32_t buffer = next_buffer++ % connection->config().send_buffers;
      std::fill_n(connection->send_buffer(buffer).begin(), bytes, value);
      connection->PostSend(connection->send_buffer(buffer).data(), bytes, buffer, hurried);
    }
    bool Poll() { return connection->Poll(*this); }

    sim::Node* node = nullptr;
    Wakeup poller;
    std::unique_ptr<Connection> connection;
    std::vector<uint8_t> values;  // of the messages
    std::vector<bool> in_packet;  // whether each was given when it arrived
    std::function<void(const Connection::Arrival&)> on_message;  // if null: Repost()
    uint32_t sent = 0;
    uint32_t next_buffer = 0;
  };
  using Values = std::vector<uint8_t>;

  static void SetUpTestSuite() {
    ASSERT_TRUE(engine::InitEal({.huge_pages = engine::EalOptions::HugePages::kNever}).ok());
  }
  // The first message, whose headers b learns, needs a completion.
  void Start(const ConnectionConfig& config = {.receives = 4}) {
    for (End* end : {&a_, &b_}) {
      end->node = &simulation_.AddNode();
      end->connection =
          Connection::Create(&end->node->worker(), &end->poller, config, nullptr).value();
    }
    ASSERT_TRUE(sim::FindEachOther(simulation_, *a_.node, *b_.node));
    Bring(a_, b_);
    Bring(b_, a_);
    a_.Send(0);
    Run();
    b_.Poll();
    ASSERT_EQ(b_.values, Values{0});
    b_.values.clear();
    b_.in_packet.clear();
  }
  void TearDown() override {
#ifdef POLLUX_PLANTED_FAULTS
    planted_fault = Fault::kNone;
#endif
    a_.connection.reset();
    b_.connection.reset();
    EXPECT_EQ(simulation_.Leaks(), "");
  }
  void Run() { simulation_.RunFor(10'000'000); }

  sim::Simulation simulation_{1, {}};
  End a_, b_;

 private:
  static void Bring(End& end, const End& peer) {
    ibv_qp_attr attr{};
    attr.path_mtu = IBV_MTU_1024;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 2;
    attr.min_rnr_timer = 1;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    verbs::QueuePair* const qp = end.connection->qp();
    const Qpn peer_qpn = peer.connection->qp()->qpn();
    ASSERT_TRUE(sim::BringToRts(*end.node, qp, *peer.node, peer_qpn, attr).ok());
    ASSERT_TRUE(end.connection->PostReceives().ok());
    if (end.connection->config().first_receives > 0) {
      ASSERT_TRUE(end.connection->Complete().ok());
    }
  }
};

TEST_F(ArrivalTest, AMessageOfOnePacketNeedsNoCompletion) {
  Start();
  b_.connection->wakeup().Sleep();
  a_.Send(1);
  a_.Send(2, 1024);
  Run();
  EXPECT_EQ(b_.values, (Values{1, 2}));
  EXPECT_EQ(b_.in_packet, (std::vector<bool>{true, true}));
  EXPECT_FALSE(b_.connection->wakeup().awake()) << "nothing is left to do";
  EXPECT_EQ(b_.connection->qp()->rq_depth(), 4u);
  EXPECT_FALSE(b_.connection->HasCompletions());
}

TEST_F(ArrivalTest, SentMessagesNeedNoCompletion) {
  Start();
  a_.Poll();
  a_.sent = 0;
  a_.Send(1, 100, /*hurried=*/true);
  a_.Send(2, 100, /*hurried=*/false);
  Run();
  a_.connection->PostWrite({}, 0, 0, 7, /*told=*/true);
  Run();
  EXPECT_EQ(a_.connection->qp()->init().send_cq->size(), 0u);
  EXPECT_TRUE(a_.Poll());
  EXPECT_EQ(a_.sent, 3u);
}

TEST_F(ArrivalTest, MessagesKeepTheirOrder) {
  Start();
  a_.Send(1);
  a_.Send(2, 2000);
  a_.Send(3);
  a_.Send(4, 2000);
  a_.Send(5);
  Run();
  EXPECT_EQ(b_.values, Values{1}) << "the others wait behind a message of two packets";
  b_.Poll();
  EXPECT_EQ(b_.values, (Values{1, 2, 3, 4, 5}));
  a_.Send(6);
  Run();
  EXPECT_EQ(b_.values.back(), 6);
  EXPECT_EQ(b_.in_packet, (std::vector<bool>{true, false, false, false, false, true}));
}

TEST_F(ArrivalTest, AKeptMessageKeepsItsReceive) {
  Start({.receives = 2});
  std::vector<Connection::Arrival> kept;
  std::vector<absl::Span<const uint8_t>> at;
  b_.on_message = [&](const Connection::Arrival& arrival) {
    kept.push_back(arrival);
    at.push_back(b_.connection->Keep(arrival));
  };
  b_.connection->wakeup().Sleep();
  for (uint8_t value : {1, 2, 3}) a_.Send(value);
  simulation_.RunFor(100'000);
  EXPECT_TRUE(b_.connection->wakeup().awake()) << "for what the messages wait for";
  EXPECT_EQ(b_.values, (Values{1, 2})) << "the third has no receive";
  EXPECT_GT(b_.node->worker().counters().send_rnr_err, 0u);
  EXPECT_EQ(at[0], absl::MakeConstSpan(std::vector<uint8_t>(100, 1)));
  EXPECT_EQ(at[1], absl::MakeConstSpan(std::vector<uint8_t>(100, 2)));
  b_.connection->Repost(kept[0].receive);
  Run();
  b_.Poll();
  EXPECT_EQ(b_.values, (Values{1, 2, 3}));
  EXPECT_EQ(at[1], absl::MakeConstSpan(std::vector<uint8_t>(100, 2)));
  EXPECT_FALSE(b_.connection->broken());
}

TEST_F(ArrivalTest, FirstReceivesAreReplacedWhenTheyAreKept) {
  Start({.receives = 3, .first_receives = 2});
  std::vector<uint32_t> kept;
  b_.on_message = [&](const Connection::Arrival& arrival) {
    b_.connection->Keep(arrival);
    kept.push_back(arrival.receive);
  };
  for (uint8_t value : {1, 2, 3}) a_.Send(value);
  Run();
  b_.Poll();
  ASSERT_EQ(kept.size(), 3u);
  for (uint32_t receive : kept) b_.connection->Repost(receive);
  EXPECT_EQ(b_.connection->qp()->rq_depth(), 3u);
  b_.on_message = nullptr;
  for (uint8_t value : {4, 5, 6}) a_.Send(value);
  Run();
  b_.Poll();
  EXPECT_EQ(b_.values, (Values{1, 2, 3, 4, 5, 6}));
}

TEST_F(ArrivalTest, HeldMessagesWaitForPoll) {
  Start();
  b_.connection->HoldMessages();
  a_.Send(1);
  Run();
  EXPECT_TRUE(b_.values.empty());
  b_.connection->PollSent(b_);
  EXPECT_TRUE(b_.values.empty());
  b_.Poll();
  EXPECT_EQ(b_.values, Values{1});
  a_.Send(2);
  Run();
  EXPECT_EQ(b_.values, (Values{1, 2}));
  b_.connection->PollSent(b_);
  a_.Send(3);
  Run();
  EXPECT_EQ(b_.values, (Values{1, 2})) << "PollSent() holds them, too";
}

TEST_F(ArrivalTest, ABrokenConnectionGivesNoMessage) {
  Start();
  b_.on_message = [this](const Connection::Arrival&) { b_.connection->MarkBroken(); };
  a_.Send(1);
  a_.Send(2);
  Run();
  b_.Poll();
  EXPECT_EQ(b_.values, Values{1});
}

TEST_F(ArrivalTest, AConnectionSleepsUntilItsSendsComplete) {
  Start();
  a_.Poll();
  a_.sent = 0;
  a_.connection->wakeup().Sleep();
  a_.Send(1);
  EXPECT_FALSE(a_.connection->HasCompletions());
  EXPECT_FALSE(a_.connection->wakeup().awake());
  Run();
  EXPECT_TRUE(a_.connection->wakeup().awake());
  EXPECT_TRUE(a_.connection->HasCompletions());
  EXPECT_TRUE(a_.Poll());
  EXPECT_EQ(a_.sent, 1u);
}

// A call may be answered while the worker still receives.
TEST_F(ArrivalTest, ARoleMayPostAndEndTheQueuePair) {
  Start();
  a_.Poll();
  b_.on_message = [this](const Connection::Arrival& arrival) {
    b_.connection->Repost(arrival.receive);
    b_.Send(9);
    b_.connection->Close();
  };
  a_.Send(1);
  a_.Send(2);
  Run();
  a_.Poll();
  EXPECT_EQ(b_.values, Values{1});
  EXPECT_EQ(a_.values, Values{9});
}

TEST_F(ArrivalTest, ARoleMayKeepAMessageOfAnEndedQueuePair) {
  Start();
  b_.on_message = [this](const Connection::Arrival& arrival) {
    b_.connection->Keep(arrival);
    b_.connection->qp()->EnterError();
  };
  a_.Send(1);
  a_.Send(2);
  Run();
  EXPECT_EQ(b_.values, Values{1});
  EXPECT_EQ(b_.connection->qp()->rq_depth(), 0u);
  b_.Poll();
  EXPECT_TRUE(b_.connection->broken());
}

#ifdef POLLUX_PLANTED_FAULTS
TEST_F(ArrivalTest, AnOvertakingMessageIsFound) {
  Start();
  planted_fault = Fault::kMessageOvertakes;
  a_.Send(1, 2000);
  a_.Send(2);
  Run();
  b_.Poll();
  EXPECT_EQ(b_.values, (Values{2, 1}));
}

TEST_F(ArrivalTest, AReceiveThatIsNotKeptIsFound) {
  Start();
  planted_fault = Fault::kReceiveNotKept;
  std::vector<absl::Span<const uint8_t>> at;
  b_.on_message = [&](const Connection::Arrival& arrival) {
    at.push_back(b_.connection->Keep(arrival));
  };
  a_.Send(1);
  a_.Send(2);
  Run();
  ASSERT_EQ(at.size(), 2u);
  EXPECT_EQ(at[0].front(), 2) << "the second message is over the first";
}
#endif

}  // namespace
}  // namespace pollux::rpcrdma
