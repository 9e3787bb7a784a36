// What costs a connection: memory that cannot be fenced, messages that cannot be posted, and memory
// that cannot be offered.
#include "rpcrdma/connection/connection.h"

#include "rpcrdma/mirror_for_test.h"

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
  connection->PostSend(0, 4, 0, true);
  EXPECT_TRUE(connection->broken());
}

TEST_F(ConnectionTest, AFailedPostTakesNoSendRoom) {
  const std::unique_ptr<Connection> connection = Make({.send_queue = 1});
  EXPECT_EQ(connection->send_room(), 1u);
  connection->MarkBroken();
  connection->PostSend(0, 4, 0, true);
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

}  // namespace
}  // namespace pollux::rpcrdma
