// Connections that are lost under a client that goes on: its calls are sent again under their XIDs,
// and what must not run twice does not.
#include "rpcrdma/mirror_for_test.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kAttempts = 5;

class ReconnectTest : public MirrorTest {
 protected:
  void StartReconnecting(const ServerConfig& config = {}) {
    StartSimulation();
    StartServer(config);
    StartClient({.reconnect = {.attempts = kAttempts}});
    ConnectClient();
    // Beyond the one call of the first grant.
    ASSERT_TRUE(Run({.procedure = kNull}).ok());
  }
  // The server hangs up on everybody, and listens again.
  void Cut() {
    server->server->Shutdown();
    ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
    ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  }
  void Reconnect() {
    ASSERT_TRUE(RunUntil([this] { return client->connected(); }));
  }
  // One call of kCount; the server answers at once, or when it is told to.
  void StartCount(bool hold, std::optional<absl::Status>* status, uint32_t* count) {
    StoreBe32(count_argument_, hold ? 1 : 0);
    ASSERT_TRUE(client
                    ->Call({.procedure = kCount, .arguments = count_argument_},
                           [=](absl::Status result, const oncrpc::Reply* reply) {
                             EXPECT_FALSE(status->has_value());
                             *status = result;
                             if (reply != nullptr) *count = reply->reader().Uint32();
                           })
                    .ok());
  }
  // kNote with an item of `sent` bytes, for one of `wanted` bytes in a Write chunk.
  void StartNote(size_t sent, size_t wanted, std::optional<absl::Status>* status) {
    oncrpc::XdrWriter out(absl::MakeSpan(note_argument_));
    out.Uint32(static_cast<uint32_t>(wanted));
    note_item_ = Pattern(sent);
    note_argument_item_ = {note_item_, out.EligibleOpaque(sent)};
    note_room_.assign(kMaxItem, 0xEE);
    note_buffer_ = absl::MakeSpan(note_room_);
    ASSERT_TRUE(client
                    ->Call({.procedure = kNote,
                            .arguments = note_argument_,
                            .items = {&note_argument_item_, 1},
                            .item_buffers = {&note_buffer_, 1}},
                           [=](absl::Status result, const oncrpc::Reply* reply) {
                             *status = result;
                             if (!result.ok()) return;
                             oncrpc::XdrReader in = reply->reader();
                             EXPECT_EQ(in.Uint32(), 1u);
                             EXPECT_EQ(in.EligibleOpaque(kMaxItem),
                                       absl::MakeConstSpan(Pattern(wanted)));
                             EXPECT_TRUE(in.AtEnd());
                           })
                    .ok());
  }
  const Counters& counters() { return server->server->counters(); }

  uint8_t count_argument_[4];
  uint8_t note_argument_[8];
  std::vector<uint8_t> note_item_, note_room_;
  oncrpc::EligibleItem note_argument_item_;
  absl::Span<uint8_t> note_buffer_;
};

TEST_F(ReconnectTest, CallsAreResentAfterAReconnect) {
  StartReconnecting();
  int done = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(client
                    ->Call({.procedure = kHold},
                           [&](absl::Status status, const oncrpc::Reply*) {
                             EXPECT_TRUE(status.ok()) << status;
                             ++done;
                           })
                    .ok());
  }
  ASSERT_TRUE(RunUntil([&] { return server->held.size() == 32; }));
  Cut();
  server->AnswerHeld();
  EXPECT_EQ(client->granted_credits(), 0u);
  Reconnect();
  EXPECT_EQ(client->granted_credits(), 1u);  // RFC 8166 section 3.3.3
  EXPECT_FALSE(ended.has_value());
  ASSERT_TRUE(RunUntil([&] {
    server->AnswerHeld();
    return done == 50;
  }));
  EXPECT_EQ(client->counters().calls_sent_again, 32u);
  EXPECT_EQ(client->counters().reconnects, 1u);
  EXPECT_EQ(client->counters().connections_lost, 1u);
  EXPECT_TRUE(Put(50'000).ok());
}

// The server hangs up on one; a number that is nobody's is no matter.
TEST_F(ReconnectTest, ServerDisconnectEndsOnlyTheGivenConnection) {
  StartReconnecting();
  const uint64_t first = server->last_connection;
  server->server->Disconnect(first + 1);
  ASSERT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_EQ(server->last_connection, first);
  server->server->Disconnect(first);
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  server->server->Disconnect(first);
  Reconnect();
  ASSERT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_NE(server->last_connection, first);
  EXPECT_EQ(counters().connections_lost, 0u);
  EXPECT_EQ(client->counters().reconnects, 1u);
}

// The handlers of the first connection's calls are at work when they come again.
TEST_F(ReconnectTest, ARepeatedCallJoinsTheRunningOne) {
  StartReconnecting();
  constexpr uint32_t kCalls = 10;
  std::optional<absl::Status> status[kCalls];
  uint32_t count[kCalls] = {};
  for (uint32_t i = 0; i < kCalls; ++i) StartCount(/*hold=*/true, &status[i], &count[i]);
  ASSERT_TRUE(RunUntil([&] { return server->runs == kCalls; }));
  Cut();
  Reconnect();
  ASSERT_TRUE(RunUntil([&] { return counters().duplicates_joined > 0; }));
  server->AnswerCounts();
  ASSERT_TRUE(RunUntil([&] {
    return std::all_of(std::begin(status), std::end(status),
                       [](const auto& s) { return s.has_value(); });
  }));
  for (uint32_t i = 0; i < kCalls; ++i) {
    EXPECT_TRUE(status[i]->ok()) << *status[i];
    EXPECT_EQ(count[i], kCalls);
  }
  EXPECT_EQ(server->runs, kCalls);
  EXPECT_EQ(counters().duplicates_answered, kCalls);
  EXPECT_EQ(counters().replies_dropped, kCalls);
}

// The second connection is lost too while its call waits for the first one's handler.
TEST_F(ReconnectTest, AJoinedCallMayLoseItsConnection) {
  StartReconnecting();
  std::optional<absl::Status> status;
  uint32_t count = 0;
  StartCount(/*hold=*/true, &status, &count);
  ASSERT_TRUE(RunUntil([&] { return server->runs == 1; }));
  for (uint64_t cuts = 1; cuts <= 2; ++cuts) {
    Cut();
    Reconnect();
    ASSERT_TRUE(RunUntil([&] { return counters().duplicates_joined == cuts; }));
  }
  server->AnswerCounts();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_EQ(server->runs, 1u);
}

// The first copy runs beside no other, or it could undo what its client does once another is
// answered; what is done is not remembered, and runs as often as it is asked for.
TEST_F(ReconnectTest, ARepeatedCallOfAJoiningProcedureWaitsForTheFirst) {
  StartReconnecting();
  server->hold_stores = true;
  uint8_t word[4];
  StoreBe32(word, 1);
  std::optional<absl::Status> status;
  ASSERT_TRUE(client
                  ->Call({.procedure = kStore, .arguments = word},
                         [&](absl::Status s, const oncrpc::Reply*) { status = s; })
                  .ok());
  ASSERT_TRUE(RunUntil([&] { return server->stores.size() == 1; }));
  Cut();
  Reconnect();
  ASSERT_TRUE(RunUntil([&] { return counters().duplicates_joined == 1; }));
  EXPECT_FALSE(status.has_value());
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_EQ(server->stores, std::vector<uint32_t>({1}));

  server->hold_stores = false;
  StoreBe32(word, 2);
  const oncrpc::CallHeader again{
      .xid = 77, .program = kMirrorProgram, .version = 1, .procedure = kStore};
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Run({.procedure = kStore, .header = &again, .arguments = word}).ok());
  }
  EXPECT_EQ(server->stores, std::vector<uint32_t>({1, 2, 2}));
  EXPECT_EQ(counters().duplicates_answered, 1u);
}

// A server that never answers keeps the credit of calls that timed out: on another connection there
// is credit again. Here the one call of the first grant.
TEST_F(ReconnectTest, CreditOfATimedOutCallReturnsWithANewConnection) {
  StartSimulation();
  StartServer();
  StartClient({.reconnect = {.attempts = kAttempts}});
  ConnectClient();
  EXPECT_EQ(Run({.procedure = kHold, .timeout_ns = 1'000'000'000}).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_EQ(client->counters().connections_silent, 1u);
  EXPECT_EQ(client->counters().reconnects, 1u);
  server->AnswerHeld();
}

// One call is not answered: it is sent again, by more connections than it may lose, and the others
// are answered all the time.
TEST_F(ReconnectTest, AnUnansweredCallIsResent) {
  StartReconnecting();
  std::optional<absl::Status> status;
  uint32_t count = 0;
  StartCount(/*hold=*/true, &status, &count);
  while (client->counters().connections_silent < kAttempts + 2) {
    ASSERT_TRUE(Run({.procedure = kNull}).ok());
    world->RunFor(sim::Simulation::kSecond);
  }
  EXPECT_GT(counters().duplicates_joined, 0u);
  EXPECT_FALSE(status.has_value());
  server->AnswerCounts();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(server->runs, 1u);
}

// An idempotent call runs anew each time it is sent.
TEST_F(ReconnectTest, ASlowCallGetsMoreTimeOnTheNextConnection) {
  constexpr uint64_t kSecond = sim::Simulation::kSecond, kRunNs = 80 * kSecond;
  StartReconnecting();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  std::vector<uint64_t> came_ns;
  size_t answered = 0;
  for (int seconds = 0; seconds < 400 && !status.has_value(); ++seconds) {
    world->RunFor(kSecond);
    if (came_ns.size() < server->held.size()) came_ns.push_back(world->now_ns());
    if (answered == came_ns.size() || world->now_ns() < came_ns[answered] + kRunNs) continue;
    server->held[answered++].Send({});
  }
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(client->counters().connections_silent, 1u);
}

// Nor is a connection given up on which nothing is asked, or that is told to be patient.
TEST_F(ReconnectTest, ASilentConnectionIsKeptIfNoCallWaitsOrSilenceIsUnlimited) {
  StartReconnecting();
  world->RunFor(200 * sim::Simulation::kSecond);
  EXPECT_EQ(client->counters().connections_silent, 0u);
  client->Disconnect();
  ASSERT_TRUE(RunUntil([this] { return ended.has_value(); }));
  StartClient({.reconnect = {.attempts = kAttempts, .silence_ms = 0}});
  ConnectClient();
  std::optional<absl::Status> status;
  uint32_t count = 0;
  StartCount(/*hold=*/true, &status, &count);
  world->RunFor(200 * sim::Simulation::kSecond);
  EXPECT_EQ(client->counters().connections_silent, 0u);
  server->AnswerCounts();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
}

TEST_F(ReconnectTest, ALostReplyIsRepeatedFromTheCache) {
  StartReconnecting();
  std::optional<absl::Status> status;
  uint32_t count = 0;
  StartCount(/*hold=*/true, &status, &count);
  ASSERT_TRUE(RunUntil([&] { return server->runs == 1; }));
  nodes[1]->port().SetUp(false);
  server->AnswerCounts();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  nodes[1]->port().SetUp(true);
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(server->runs, 1u);
  EXPECT_EQ(counters().duplicates_answered, 1u);
}

// Its process dies without a word, and another takes its place, which knows of no connection and no
// call. The client finds out by itself.
TEST_F(ReconnectTest, CallsSurviveAServerThatIsKilledAndRestarted) {
  StartReconnecting();
  for (int kills = 1; kills <= 3; ++kills) {
    std::optional<absl::Status> count_status, echo_status;
    uint32_t count = 0;
    StartCount(/*hold=*/true, &count_status, &count);
    const std::vector<uint8_t> arguments = Pattern(20'000);
    std::vector<uint8_t> room(oncrpc::kReplyHeaderBytes + arguments.size());
    ASSERT_TRUE(client
                    ->Call({.procedure = kEcho,
                            .arguments = arguments,
                            .reply_buffer = absl::MakeSpan(room),
                            .max_result_bytes = static_cast<uint32_t>(arguments.size())},
                           [&](absl::Status status, const oncrpc::Reply* reply) {
                             echo_status = status;
                             ASSERT_NE(reply, nullptr);
                             EXPECT_EQ(reply->results, absl::MakeConstSpan(arguments));
                           })
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return server->runs == 1; }));
    nodes[1]->port().SetUp(false);
    server->AnswerCounts();
    server = nullptr;
    world->RunFor(1);  // what it has posted is lost on the port that is down
    StartServer();
    nodes[1]->port().SetUp(true);
    ASSERT_TRUE(RunUntil([&] { return server->runs == 1; })) << kills;
    server->AnswerCounts();
    ASSERT_TRUE(RunUntil([&] { return count_status.has_value() && echo_status.has_value(); }));
    EXPECT_TRUE(count_status->ok()) << *count_status;
    EXPECT_EQ(count, 1u);
    EXPECT_TRUE(echo_status->ok()) << *echo_status;
    EXPECT_EQ(client->counters().reconnects, static_cast<uint64_t>(kills));
    server->runs = 0;
  }
  EXPECT_FALSE(ended.has_value());
}

// Argument and result in chunks, which are other memory each time.
TEST_F(ReconnectTest, RepliesWithChunksAreRepeatedFromTheCache) {
  constexpr uint32_t kBytes = 900;
  StartReconnecting({.cached_reply_bytes = kBytes + 8});
  for (const bool fits : {true, false}) {
    server->runs = 0;
    const uint64_t answered = counters().duplicates_answered;
    std::optional<absl::Status> status;
    server->hold_notes = true;
    StartNote(20'000, fits ? kBytes : kBytes + 1, &status);
    ASSERT_TRUE(RunUntil([&] { return server->runs == 1; }));
    nodes[1]->port().SetUp(false);
    server->AnswerNote();
    ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
    EXPECT_EQ(client->advertised_regions(), 0u);
    nodes[1]->port().SetUp(true);
    ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
    // RFC 8166 section 4.5.3
    EXPECT_EQ(status->code(), fits ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(server->runs, 1u);
    EXPECT_EQ(counters().duplicates_answered, answered + (fits ? 1 : 0));
    EXPECT_EQ(counters().duplicates_refused, fits ? 0u : 1u);
  }
}

// RFC 8797 section 4
TEST_F(ReconnectTest, SettingsAreNegotiatedAgainAfterAReconnect) {
  StartReconnecting();
  EXPECT_EQ(client->negotiated().thresholds.client_to_server, 4096u);
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  server = nullptr;
  StartServer({.send_bytes = 1024, .receive_bytes = 1024});
  // Made for the old sizes, sent by the new.
  Echo(3000);
  EXPECT_EQ(client->negotiated().thresholds.client_to_server, 1024u);
  EXPECT_EQ(client->negotiated().thresholds.server_to_client, 1024u);
  EXPECT_GT(counters().bytes_read, 3000u);
  EXPECT_GT(counters().bytes_written, 3000u);
}

// What fitted a message does not any more, and there is nowhere else for it.
TEST_F(ReconnectTest, CallsThatExceedTheNewThresholdsFail) {
  StartReconnecting();
  const std::vector<uint8_t> arguments = Pattern(3000);
  std::optional<absl::Status> status;
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  server = nullptr;
  ASSERT_TRUE(
      client
          ->Call({.procedure = kEcho, .arguments = arguments, .max_result_bytes = 3000},
                 [&](absl::Status s, const oncrpc::Reply*) {
                   status = s;
                   EXPECT_TRUE(
                       client->Call({.procedure = kNull}, [](absl::Status, const oncrpc::Reply*) {})
                           .ok());
                 })
          .ok());
  StartServer({.send_bytes = 1024, .receive_bytes = 1024});
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_EQ(status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
}

// An attempt takes longer if nobody answers.
TEST_F(ReconnectTest, ReconnectGivesUpAfterMaxTotalMs) {
  constexpr uint64_t kSecond = sim::Simulation::kSecond;
  StartSimulation();
  StartServer();
  StartClient({.reconnect = {.attempts = ReconnectPolicy::kForEver, .max_total_ms = 20'000}});
  ConnectClient();
  ASSERT_TRUE(Run({.procedure = kNull}).ok());
  // The limit is not that of a connection.
  Cut();
  Reconnect();
  world->RunFor(30 * kSecond);
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_EQ(client->counters().reconnects, 1u);
  server.reset();
  managers[1].reset();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  const uint64_t lost_ns = world->now_ns();
  EXPECT_EQ(Run({.procedure = kNull}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(ended.has_value());
  EXPECT_GE(world->now_ns(), lost_ns + 19 * kSecond);
  EXPECT_LE(world->now_ns(), lost_ns + 21 * kSecond);
}

TEST_F(ReconnectTest, ReconnectGivesUpAfterTheLastAttempt) {
  StartReconnecting();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  ASSERT_TRUE(RunUntil([&] { return !server->held.empty(); }));
  server->server->Shutdown();  // nobody listens again
  ASSERT_TRUE(RunUntil([&] { return ended.has_value(); }));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ended->code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(client->reconnecting());
  EXPECT_EQ(client->Call({.procedure = kNull}, nullptr).code(), absl::StatusCode::kUnavailable);
  server->AnswerHeld();
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ConnectClient();
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
}

TEST_F(ReconnectTest, ReconnectWithoutALimitNeverGivesUp) {
  StartSimulation();
  StartServer();
  StartClient({.reconnect = {.attempts = ReconnectPolicy::kForEver}});
  ConnectClient();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  ASSERT_TRUE(RunUntil([&] { return !server->held.empty(); }));
  server->server->Shutdown();
  server->AnswerHeld();
  world->RunFor(3600 * sim::Simulation::kSecond);
  EXPECT_FALSE(status.has_value());
  EXPECT_TRUE(client->reconnecting());
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ASSERT_TRUE(RunUntil([&] { return !server->held.empty(); }));
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
}

// The connections last: each is worth to be made again, the call is not.
TEST_F(ReconnectTest, TransmissionsOfACallAreBounded) {
  StartReconnecting();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  uint32_t cuts = 0;
  while (!status.has_value() && cuts < 2 * kAttempts) {
    world->RunFor(ReconnectPolicy{}.max_delay_ms * 1'000'000ull);
    Cut();
    server->AnswerHeld();
    ++cuts;
    Reconnect();
    ASSERT_TRUE(RunUntil([&] { return status.has_value() || !server->held.empty(); }));
  }
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cuts, kAttempts + 1);
  EXPECT_FALSE(ended.has_value());
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
}

// Calls that end while they wait make room for others.
TEST_F(ReconnectTest, CallsThatTimeOutDuringAReconnectFreeTheirSlots) {
  StartSimulation();
  StartServer();
  StartClient({.max_calls = 4, .reconnect = {.attempts = kAttempts}});
  ConnectClient();
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  int timed_out = 0, done = 0;
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      // The third stays.
      const uint64_t timeout_ns = i == 2 && round == 1 ? 0 : 1'000 + 100 * ((i * 7) % 4);
      const absl::Status status =
          client->Call({.procedure = kNull, .timeout_ns = timeout_ns},
                       [&](absl::Status s, const oncrpc::Reply*) {
                         timed_out += s.code() == absl::StatusCode::kDeadlineExceeded ? 1 : 0;
                         done += s.ok() ? 1 : 0;
                       });
      EXPECT_EQ(status.code(),
                i == 3 && round > 1 ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk);
    }
    world->RunFor(100'000);
    EXPECT_EQ(timed_out, 3 * round);
  }
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ASSERT_TRUE(RunUntil([&] { return done == 1; }));
}

// Short-lived connections, each of which brought a reply: their number is not bounded.
TEST_F(ReconnectTest, AReplyResetsTheAttempts) {
  StartReconnecting();
  for (uint32_t cuts = 0; cuts < 2 * kAttempts; ++cuts) {
    Cut();
    Reconnect();
    ASSERT_TRUE(Run({.procedure = kNull}).ok()) << cuts;
  }
  EXPECT_EQ(client->counters().reconnects, 2 * kAttempts);
}

// And those that did not are.
TEST_F(ReconnectTest, ConnectionsWithoutAReplyCountAsAttempts) {
  StartReconnecting();
  uint32_t cuts = 0;
  while (!ended.has_value() && cuts < 2 * kAttempts) {
    server->server->Shutdown();
    ++cuts;
    ASSERT_TRUE(RunUntil([this] { return client->reconnecting() || ended.has_value(); }));
    ASSERT_TRUE(server->server->Listen(kTestPort).ok());
    ASSERT_TRUE(RunUntil([this] { return client->connected() || ended.has_value(); }));
  }
  EXPECT_TRUE(ended.has_value());
  EXPECT_EQ(cuts, kAttempts + 1);
}

TEST_F(ReconnectTest, DisconnectEndsTheReconnect) {
  StartReconnecting();
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kNull}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  client->Disconnect();
  EXPECT_EQ(client->Call({.procedure = kNull}, nullptr).code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(RunUntil([this] { return ended.has_value(); }));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), absl::StatusCode::kCancelled);
}

// Whoever hears that one of his calls failed may cancel the others, in no time.
TEST_F(ReconnectTest, TheCallbackOfAFailedCallMayCancelOthers) {
  StartReconnecting();
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  std::vector<oncrpc::CallId> others(200);
  int failed = 0;
  ASSERT_TRUE(client
                  ->Call({.procedure = kNull},
                         [&](absl::Status, const oncrpc::Reply*) {
                           ++failed;
                           for (const oncrpc::CallId& other : others)
                             EXPECT_TRUE(client->Cancel(other));
                         })
                  .ok());
  for (oncrpc::CallId& other : others) {
    ASSERT_TRUE(
        client
            ->Call(
                {.procedure = kNull}, [&](absl::Status, const oncrpc::Reply*) { ++failed; }, &other)
            .ok());
  }
  client->Disconnect();
  ASSERT_TRUE(RunUntil([this] { return ended.has_value(); }));
  EXPECT_EQ(failed, 1);
}

TEST_F(ReconnectTest, CallsCanTimeOutAndBeCancelledDuringAReconnect) {
  StartReconnecting();
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([this] { return client->reconnecting(); }));
  std::optional<absl::Status> timed, cancelled;
  oncrpc::CallId id;
  ASSERT_TRUE(client
                  ->Call({.procedure = kNull, .timeout_ns = 1000},
                         [&](absl::Status s, const oncrpc::Reply*) { timed = s; })
                  .ok());
  ASSERT_TRUE(client
                  ->Call(
                      {.procedure = kNull},
                      [&](absl::Status s, const oncrpc::Reply*) { cancelled = s; }, &id)
                  .ok());
  EXPECT_TRUE(client->Cancel(id));
  EXPECT_FALSE(client->Cancel(id));
  EXPECT_FALSE(client->Cancel({}));
  ASSERT_TRUE(RunUntil([&] { return timed.has_value(); }));
  EXPECT_EQ(timed->code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_FALSE(cancelled.has_value());
}

TEST_F(ReconnectTest, CallsAreNotCachedWhenTheCacheIsFullOfRunningCalls) {
  StartReconnecting({.cached_replies = 2});
  std::optional<absl::Status> status[3];
  uint32_t count[3] = {};
  for (int i = 0; i < 3; ++i) StartCount(/*hold=*/true, &status[i], &count[i]);
  ASSERT_TRUE(RunUntil([&] { return server->runs == 3; }));
  EXPECT_EQ(counters().calls_not_cached, 1u);
  server->AnswerCounts();
  ASSERT_TRUE(RunUntil([&] { return status[2].has_value(); }));
  EXPECT_EQ(count[2], 3u);
}

// One client, one call that a file system keeps waiting: connection after connection, what it holds
// must not become all that the server has.
TEST_F(ReconnectTest, AStalledCallDoesNotTakeEveryBuffer) {
  constexpr uint32_t kBuffers = 4;
  StartReconnecting({.bulk_buffers = kBuffers});
  std::vector<uint8_t> room(oncrpc::kReplyHeaderBytes + 10'000);
  std::optional<absl::Status> status;
  ASSERT_TRUE(client
                  ->Call({.procedure = kHold,
                          .reply_buffer = absl::MakeSpan(room),
                          .max_result_bytes = 10'000},
                         [&](absl::Status s, const oncrpc::Reply*) { status = s; })
                  .ok());
  for (uint32_t sent = 1; sent <= kBuffers; ++sent) {
    ASSERT_TRUE(RunUntil([&] { return server->held.size() == sent; }));
    Cut();
    Reconnect();
  }
  ASSERT_TRUE(RunUntil([&] { return server->held.size() == kBuffers + 1; }));
  // The last one brings the new connection's credits.
  server->held.back().Send({});
  server->held.pop_back();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_TRUE(Put(50'000).ok());
  server->AnswerHeld();
}

}  // namespace
}  // namespace pollux::rpcrdma
