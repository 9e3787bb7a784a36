// Client and server over CM and RC on the simulated network.
#include "rpcrdma/mirror_for_test.h"

namespace pollux::rpcrdma {
namespace {

TEST_F(MirrorTest, ThresholdsAreNegotiatedAndCallsSucceed) {
  StartSimulation();
  StartServer({.send_bytes = 2048, .receive_bytes = 8192});
  StartClient({.send_bytes = 16384, .receive_bytes = 4096});
  ConnectClient();
  // RFC 8797 section 4.2
  EXPECT_TRUE(client->negotiated().peer_sent);
  EXPECT_EQ(client->negotiated().thresholds.client_to_server, 8192u);
  EXPECT_EQ(client->negotiated().thresholds.server_to_client, 2048u);
  EXPECT_EQ(client->granted_credits(), 1u);
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_EQ(client->granted_credits(), 32u);
  EXPECT_EQ(server->server->connections(), 1u);
}

TEST_F(MirrorTest, ArgumentsOfEverySizeAreEchoed) {
  StartAll();
  for (size_t bytes : {0u, 4u, 900u, 948u, 3900u, 3996u, 4000u, 4004u, 4024u, 4028u, 4032u, 4096u,
                       20'000u, kMaxEcho}) {
    Echo(bytes);
  }
  EXPECT_EQ(server->server->counters().chunk_errors_sent, 0u);
  EXPECT_GT(server->server->counters().bytes_read, 0u);
  EXPECT_GT(server->server->counters().bytes_written, 0u);
}

// RFC 8166 sections 3.4.4.1, 3.4.4.4, 3.4.5.2 and 3.4.6.2: the count stays in the stream, no pad is
// in a Read chunk, nor in a Write chunk, beside which nothing is written.
TEST_F(MirrorTest, PutAndGetOfEverySize) {
  StartAll();
  for (size_t bytes : {0u, 1u, 3u, 4u, 5u, 1023u, 3970u, 4000u, 4096u, 4097u, 100'001u, kMaxItem}) {
    EXPECT_TRUE(Put(bytes).ok()) << bytes;
    EXPECT_TRUE(Get(bytes, std::max(bytes, size_t{1})).ok()) << bytes;
  }
  // RFC 8166 section 4.3.2.2: a Write chunk larger than the result, or not used at all.
  for (size_t bytes : {0u, 1u, 5000u}) EXPECT_TRUE(Get(bytes, kMaxItem).ok()) << bytes;
  EXPECT_GT(server->server->counters().bytes_read, kMaxItem);
  EXPECT_GT(server->server->counters().bytes_written, kMaxItem);
  EXPECT_EQ(server->server->counters().bytes_copied, 0u);
  EXPECT_EQ(client->counters().bytes_copied, 0u);
  EXPECT_TRUE(RunUntil([&] { return server->releases == 15; }));
}

TEST_F(MirrorTest, EligibleResultWithoutAWriteChunkComesInTheReplyChunk) {
  StartAll();
  std::vector<uint8_t> reply_buffer(oncrpc::kReplyHeaderBytes + 12 + kMaxItem);
  uint8_t argument[4];
  StoreBe32(argument, 10'001);
  EXPECT_TRUE(
      Run({.procedure = kGet, .arguments = argument, .reply_buffer = absl::MakeSpan(reply_buffer)},
          [](const oncrpc::Reply& reply) {
            oncrpc::XdrReader in = reply.reader();
            in.Uint32();
            EXPECT_EQ(in.EligibleOpaque(kMaxItem), absl::MakeConstSpan(Pattern(10'001)));
            in.Uint32();
            EXPECT_TRUE(in.AtEnd());
          })
          .ok());
  // Put together, each byte of it once.
  EXPECT_GT(server->server->counters().bytes_written, 10'001u);
  EXPECT_EQ(server->server->counters().bytes_copied, server->server->counters().bytes_written);
  EXPECT_EQ(client->counters().bytes_copied, 0u);
}

// Some in Read chunks and some not, in calls of all forms; results in Write chunks, inline by an
// empty chunk, or by none, and all padded in the Reply chunk. RFC 8166
// sections 3.4.5, 3.5.3, 4.3.2.1 and 4.3.2.3
TEST_F(MirrorTest, SeveralEligibleItemsReturnFromOneCall) {
  StartAll();
  Random random(7);
  constexpr uint32_t kSizes[] = {0, 1, 5, 300, 3000, 4001, kManyItem};
  int longest = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<uint8_t> sent[3], rooms[3];
    std::vector<uint8_t> reply_buffer(oncrpc::kReplyHeaderBytes + 24 + 3 * kManyItem);
    oncrpc::EligibleItem items[3];
    absl::Span<uint8_t> buffers[3];
    uint8_t space[24];
    oncrpc::XdrWriter out(absl::MakeSpan(space));
    for (uint32_t i = 0; i < 3; ++i) {
      sent[i] = Pattern(kSizes[random.Below(std::size(kSizes))]);
      for (uint8_t& byte : sent[i]) byte += static_cast<uint8_t>(i + 1);
      out.Uint32(i);
      items[i] = {sent[i], out.EligibleOpaque(sent[i].size())};
      if (random.Chance(0.6)) rooms[i].resize(kManyItem);
      buffers[i] = absl::MakeSpan(rooms[i]);
    }
    const uint64_t read = server->server->counters().bytes_read;
    const absl::Status status =
        Run({.procedure = kMany,
             .arguments = out.bytes(),
             .items = items,
             .item_buffers = absl::MakeSpan(buffers).first(random.Below(4)),
             .reply_buffer = absl::MakeSpan(reply_buffer)},
            [&](const oncrpc::Reply& reply) {
              oncrpc::XdrReader in = reply.reader();
              for (uint32_t i = 0; i < 3; ++i) {
                EXPECT_EQ(in.Uint32(), i);
                EXPECT_EQ(in.EligibleOpaque(kManyItem), absl::MakeConstSpan(sent[i])) << round;
              }
              EXPECT_TRUE(in.AtEnd());
            });
    ASSERT_TRUE(status.ok()) << round << ": " << status;
    if (server->server->counters().bytes_read - read > 2 * kManyItem) ++longest;
  }
  EXPECT_GT(longest, 0);
  EXPECT_TRUE(RunUntil([&] { return server->releases == 900; }));
}

// RFC 8166 section 3.4.6 and section 4.5.3: seen before anything is written past the chunk.
TEST_F(MirrorTest, AResultLargerThanTheWriteChunkFailsTheCall) {
  StartAll();
  EXPECT_EQ(Get(9000, 8999).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(server->server->counters().replies_too_large, 1u);
  EXPECT_TRUE(RunUntil([&] { return server->releases == 1; }));
  EXPECT_TRUE(Get(9000, 9000).ok());
}

// RFC 8166 section 4.5.4: the procedure ran, and its reply waits for a region, as for room; what
// waits too long costs the connection.
TEST_F(MirrorTest, AReplyWaitsForARegion) {
  StartAll();
  ASSERT_TRUE(Run({.procedure = kNull}).ok());
  for (const bool in_time : {true, false}) {
    world->RunFor(sim::Simulation::kSecond / 100);  // what the last reply had is given back
    auto taken = std::make_unique<AllRegions>(&nodes[1]->worker());
    uint8_t argument[4];
    StoreBe32(argument, 50'000);
    std::vector<uint8_t> buffer(50'000);
    const absl::Span<uint8_t> room = absl::MakeSpan(buffer);
    std::optional<absl::Status> status;
    ASSERT_TRUE(client
                    ->Call({.procedure = kGet, .arguments = argument, .item_buffers = {&room, 1}},
                           [&](absl::Status s, const oncrpc::Reply*) { status = s; })
                    .ok());
    world->RunFor(Responder::kStallNs / 2);
    EXPECT_FALSE(status.has_value());
    if (in_time) taken->GiveOneBack();
    ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
    EXPECT_EQ(status->code(), in_time ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable);
    if (in_time) {
      EXPECT_EQ(buffer, Pattern(50'000));
    }
  }
  EXPECT_EQ(server->server->counters().chunk_errors_sent, 0u);
  EXPECT_EQ(server->server->counters().connections_stalled, 1u);
}

TEST_F(MirrorTest, ManyCallsStayWithinTheGrant) {
  StartSimulation();
  StartServer({.credits = 4});
  StartClient({.credits = 8});
  ConnectClient();
  int done = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client
                    ->Call({.procedure = kHold},
                           [&](absl::Status status, const oncrpc::Reply*) {
                             EXPECT_TRUE(status.ok()) << status;
                             ++done;
                           })
                    .ok());
  }
  size_t most = 0;
  ASSERT_TRUE(RunUntil([&] {
    most = std::max(most, server->held.size());
    if (!server->held.empty() && world->random().Chance(0.5)) server->AnswerHeld();
    return done == 200;
  }));
  EXPECT_LE(most, 4u);
  EXPECT_GT(most, 1u);
}

TEST_F(MirrorTest, CallTimesLastUntilTheReply) {
  StartAll();
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  const CallTimes& times = server->server->counters().call_times;
  EXPECT_EQ(times.calls(0), 1u) << "answered in the turn in which it arrived";
  EXPECT_EQ(times.sum_ns(), 0u);
  bool done = false;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status, const oncrpc::Reply*) { done = true; })
          .ok());
  ASSERT_TRUE(RunUntil([&] { return !server->held.empty(); }));
  world->RunFor(6'000'000);
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return done; }));
  EXPECT_EQ(times.calls(13), 1u) << "4.2 to 8.4 ms";
  EXPECT_GT(times.sum_ns(), 4'000'000u);
  EXPECT_EQ(client->counters().call_times.calls(0), 0u);
}

// RFC 8166 section 3.3.1: a receive is posted again before the reply that gives its credit back,
// and for each reply that may come. Nobody is told to wait.
TEST_F(MirrorTest, EveryMessageFindsAPostedReceive) {
  StartSimulation();
  StartServer({.credits = 16});
  StartClient({.credits = 16});
  ConnectClient();
  int done = 0;
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(client
                    ->Call({.procedure = kHold},
                           [&](absl::Status status, const oncrpc::Reply*) {
                             EXPECT_TRUE(status.ok()) << status;
                             ++done;
                           })
                    .ok());
  }
  size_t most = 0;
  for (int round = 0; round < 100 && done < 400; ++round) {
    world->RunFor(1'000'000);
    most = std::max(most, server->held.size());
    server->AnswerHeld();
  }
  EXPECT_EQ(done, 400);
  EXPECT_EQ(most, 16u);
  for (sim::Node* node : nodes) EXPECT_EQ(node->worker().counters().send_rnr_err, 0u);
}

// RFC 8166 section 3.3.1: the last grant holds, whatever it was before.
TEST_F(MirrorTest, GrantsRiseAndFall) {
  StartAll();
  int done = 0, issued = 0;
  const auto call = [&] {
    ASSERT_TRUE(client
                    ->Call({.procedure = kHold},
                           [&](absl::Status status, const oncrpc::Reply*) {
                             EXPECT_TRUE(status.ok()) << status;
                             ++done;
                           })
                    .ok());
    ++issued;
  };
  for (const auto& asked_granted : {std::pair{8u, 8u}, {2u, 2u}, {100u, 32u}, {0u, 1u}, {3u, 3u}}) {
    const uint32_t granted = asked_granted.second;
    server->server->SetCredits(asked_granted.first);
    for (int i = 0; i < 80; ++i) call();
    // All that were sent before the client knew.
    ASSERT_TRUE(RunUntil([&] {
      server->AnswerHeld();
      return client->granted_credits() == granted;
    }));
    world->RunFor(1'000'000);
    server->AnswerHeld();
    size_t most = 0;
    ASSERT_TRUE(RunUntil([&] {
      most = std::max(most, server->held.size());
      if (world->random().Chance(0.3)) server->AnswerHeld();
      return done == issued;
    }));
    EXPECT_LE(most, granted);
  }
}

// Those that find no buffer at the server are pulled long after their SEND was acknowledged.
TEST_F(MirrorTest, ManyLongCallsCompleteWithTwoBuffers) {
  StartSimulation();
  StartServer({.bulk_buffers = 2});
  StartClient();
  ConnectClient();
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  constexpr size_t kCalls = 60;
  std::vector<std::vector<uint8_t>> arguments, rooms;
  size_t done = 0;
  for (size_t i = 0; i < kCalls; ++i) {
    arguments.push_back(Pattern(8000 + 4 * i));
    rooms.emplace_back(oncrpc::kReplyHeaderBytes + arguments[i].size());
  }
  for (size_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(client
                    ->Call({.procedure = kEcho,
                            .arguments = arguments[i],
                            .reply_buffer = absl::MakeSpan(rooms[i]),
                            .max_result_bytes = static_cast<uint32_t>(arguments[i].size())},
                           [&, i](absl::Status status, const oncrpc::Reply* reply) {
                             ++done;
                             ASSERT_TRUE(status.ok()) << status;
                             EXPECT_EQ(reply->results, absl::MakeConstSpan(arguments[i]));
                           })
                    .ok());
  }
  EXPECT_TRUE(RunUntil([&] { return done == kCalls; }));
}

TEST_F(MirrorTest, CallsOutsideTheBindingAreRefused) {
  StartAll();
  const std::vector<uint8_t> bytes(kMaxItem + 8);
  std::vector<uint8_t> room(64);
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(Run({.procedure = 77}).code(), invalid);
  EXPECT_EQ(Run({.procedure = kNull, .arguments = absl::MakeSpan(bytes).first(4)}).code(), invalid);
  const oncrpc::EligibleItem item{bytes, 0};
  EXPECT_EQ(Run({.procedure = kNull, .items = {&item, 1}}).code(), invalid);
  const absl::Span<uint8_t> buffer = absl::MakeSpan(room);
  EXPECT_EQ(Run({.procedure = kNull, .item_buffers = {&buffer, 1}}).code(), invalid);
  EXPECT_EQ(Run({.procedure = kEcho}).code(), invalid);  // RFC 8166 section 4.3.3: no reply buffer
  EXPECT_EQ(client->counters().calls_sent, 0u);
}

TEST_F(MirrorTest, UnknownProgramsVersionsAndProceduresAreRefused) {
  StartSimulation();
  StartServer();
  for (auto [program, version] : {std::pair{kMirrorProgram + 1, 1u}, {kMirrorProgram, 2u}}) {
    oncrpc::ProgramBinding binding = MirrorBinding();
    binding.program = program;
    binding.version = version;
    StartClient({}, binding);
    ConnectClient();
    EXPECT_EQ(Run({.procedure = kNull}).code(), absl::StatusCode::kUnimplemented);
  }
  oncrpc::ProgramBinding binding = MirrorBinding();
  binding.procedures.push_back({.number = 60});
  StartClient({}, binding);
  ConnectClient();
  EXPECT_EQ(Run({.procedure = 60}).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Run({.procedure = kDrop}).code(), absl::StatusCode::kInternal);
  // RFC 8166 section 4.5.2
  const absl::Status garbage = Run({.procedure = kPut, .arguments = std::vector<uint8_t>(4, 0xFF)});
  EXPECT_EQ(garbage, absl::InvalidArgumentError("the server cannot decode the arguments"));
  EXPECT_EQ(server->server->counters().calls_refused, 3u);
}

TEST_F(MirrorTest, CallsAfterRebindHaveTheNewVersion) {
  StartAll();
  const oncrpc::ProgramBinding second{
      .program = kMirrorProgram, .version = 2, .procedures = {{.number = kNull}}};
  Program program{.binding = second, .procedures = {}};
  int calls = 0;
  program.procedures.push_back({kNull, [&calls](const CallView&, ReplyHandle reply) {
                                  ++calls;
                                  reply.Send({});
                                }});
  ASSERT_TRUE(server->server->RegisterProgram(std::move(program)).ok());
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_EQ(calls, 0);
  client->Rebind(second);
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(client->Call({.procedure = kHold}, nullptr).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MirrorTest, WithoutAListenerConnectFails) {
  StartSimulation();
  StartClient();
  std::optional<absl::Status> status;
  ASSERT_TRUE(client
                  ->Connect(
                      {nodes[1]->gid(), kTestPort}, [&](absl::Status s) { status = s; }, nullptr)
                  .ok());
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(client->connected());
}

TEST_F(MirrorTest, LostConnectionFailsEveryCallAndTheClientConnectsAgain) {
  StartAll();
  EXPECT_TRUE(Put(50'000).ok());
  int failed = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(client
                    ->Call({.procedure = kHold},
                           [&](absl::Status status, const oncrpc::Reply*) {
                             EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
                             ++failed;
                           })
                    .ok());
  }
  ASSERT_TRUE(RunUntil([&] { return server->held.size() == 32; }));
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([&] { return ended.has_value() && server->server->connections() == 1; }));
  EXPECT_EQ(failed, 50);
  EXPECT_EQ(client->Call({.procedure = kNull}, nullptr).code(), absl::StatusCode::kUnavailable);
  // Replies to a connection that is gone are dropped; only then is the connection forgotten.
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return server->server->connections() == 0; }));
  EXPECT_EQ(server->server->counters().replies_dropped, 32u);
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ConnectClient();
  EXPECT_TRUE(Put(50'000).ok());
}

TEST_F(MirrorTest, TheIdOfACallIsNotUsedAgainByTheNextConnection) {
  StartAll();
  std::optional<absl::Status> first, second;
  oncrpc::CallId id;
  const auto hold = [&](std::optional<absl::Status>* status, oncrpc::CallId* of) {
    return client->Call(
        {.procedure = kHold}, [status](absl::Status s, const oncrpc::Reply*) { *status = s; }, of);
  };
  ASSERT_TRUE(hold(&first, &id).ok());
  ASSERT_TRUE(RunUntil([&] { return server->held.size() == 1; }));
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([&] { return ended.has_value(); }));
  EXPECT_EQ(first->code(), absl::StatusCode::kUnavailable);
  server->AnswerHeld();
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ConnectClient();
  ASSERT_TRUE(hold(&second, nullptr).ok());
  ASSERT_TRUE(RunUntil([&] { return server->held.size() == 1; }));
  EXPECT_FALSE(client->Cancel(id));
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return second.has_value(); }));
  EXPECT_TRUE(second->ok()) << *second;
}

TEST_F(MirrorTest, AServerThatTakesNoMoreCallsAnswersThoseInProgress) {
  StartAll();
  EXPECT_TRUE(Put(50'000).ok());
  std::optional<absl::Status> held, late;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { held = s; })
          .ok());
  ASSERT_TRUE(RunUntil([&] { return server->held.size() == 1; }));
  server->server->StopTakingCalls();
  EXPECT_EQ(server->server->calls_in_progress(), 1u);
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { late = s; })
          .ok());
  world->RunFor(sim::Simulation::kSecond);
  EXPECT_EQ(server->held.size(), 1u);
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return server->server->calls_in_progress() == 0; }));
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([&] { return ended.has_value() && server->server->connections() == 0; }));
  EXPECT_EQ(held, absl::OkStatus());
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ConnectClient();
  EXPECT_TRUE(Put(50'000).ok());
}

TEST_F(MirrorTest, CallbacksOfFailedCallsMayDisconnectAndCall) {
  StartAll();
  std::optional<absl::Status> again;
  ASSERT_TRUE(client
                  ->Call({.procedure = kHold},
                         [&](const absl::Status& status, const oncrpc::Reply*) {
                           EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
                           client->Disconnect();
                           again = client->Call({.procedure = kNull}, nullptr);
                         })
                  .ok());
  ASSERT_TRUE(RunUntil([&] { return server->held.size() == 1; }));
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([&] { return ended.has_value(); }));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->code(), absl::StatusCode::kUnavailable);
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return server->server->connections() == 0; }));
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ConnectClient();
  EXPECT_TRUE(Put(50'000).ok());
}

TEST_F(MirrorTest, ADownLinkFailsTheCallAndTheClientCanReconnect) {
  StartAll();
  nodes[1]->port().SetUp(false);
  EXPECT_EQ(Put(50'000).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(ended.has_value());
  nodes[1]->port().SetUp(true);
  ConnectClient();
  EXPECT_TRUE(Put(50'000).ok());
}

// The server has acknowledged the call and is never heard of again: nothing of RC's would notice.
TEST_F(MirrorTest, AVanishedServerFailsTheWaitingCall) {
  StartAll();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  ASSERT_TRUE(RunUntil([&] { return !server->held.empty(); }));
  world->RunFor(sim::Simulation::kSecond);
  nodes[1]->port().SetUp(false);
  world->RunFor(60 * sim::Simulation::kSecond);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(ended.has_value());
  // And the server misses its client.
  server->AnswerHeld();
  EXPECT_TRUE(RunUntil([&] { return server->server->connections() == 0; }));
}

// A live server may think for as long as it likes, and a quiet connection stays.
TEST_F(MirrorTest, IdleConnectionsStayEstablished) {
  StartAll();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  world->RunFor(100 * Connection::kQuietNs);
  EXPECT_FALSE(status.has_value());
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  world->RunFor(100 * Connection::kQuietNs);
  EXPECT_TRUE(client->connected());
  EXPECT_EQ(server->server->connections(), 1u);
}

// Whoever leaves does not wait for a server that is gone.
TEST_F(MirrorTest, DisconnectFailsCallsImmediately) {
  StartAll();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  ASSERT_TRUE(RunUntil([&] { return !server->held.empty(); }));
  nodes[1]->port().SetUp(false);
  client->Disconnect();
  world->RunFor(sim::Simulation::kSecond / 100);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(ended.has_value());
  server->AnswerHeld();
}

// RFC 8166 section 4.4.1: what the server writes later does not arrive.
TEST_F(MirrorTest, ATimedOutCallLosesItsRemoteAccess) {
  StartAll();
  const std::vector<uint8_t> untouched(50'000, 0xEE), late(40'000, 0x66);
  std::vector<uint8_t> buffer = untouched;
  const absl::Span<uint8_t> room = absl::MakeSpan(buffer);
  std::optional<absl::Status> status;
  ASSERT_TRUE(client
                  ->Call({.procedure = kGradual,
                          .item_buffers = {&room, 1},
                          .timeout_ns = sim::Simulation::kSecond},
                         [&](absl::Status s, const oncrpc::Reply*) {
                           EXPECT_EQ(client->advertised_regions(), 0u);
                           status = s;
                         })
                  .ok());
  EXPECT_EQ(client->advertised_regions(), 1u);
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_EQ(status->code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(server->gradual.size(), 1u);
  uint8_t length[4];
  StoreBe32(length, static_cast<uint32_t>(late.size()));
  server->gradual.front().Send(length, ResultItem{.bytes = late, .position = sizeof(length)});
  server->gradual.clear();
  world->RunFor(sim::Simulation::kSecond);
  EXPECT_EQ(buffer, untouched);
}

TEST_F(MirrorTest, ALateReplyIsDiscarded) {
  StartAll();
  std::vector<uint8_t> reply_buffer(oncrpc::kReplyHeaderBytes + kMaxEcho);
  EXPECT_EQ(Run({.procedure = kHold,
                 .reply_buffer = absl::MakeSpan(reply_buffer),
                 .timeout_ns = 1'000'000})
                .code(),
            absl::StatusCode::kDeadlineExceeded);
  server->AnswerHeld();
  EXPECT_TRUE(Run({.procedure = kNull}).ok());
}

TEST_F(MirrorTest, DestroyingTheClientEndsCallsAndTheirRemoteAccess) {
  StartAll();
  std::optional<absl::Status> status;
  ASSERT_TRUE(
      client->Call({.procedure = kHold}, [&](absl::Status s, const oncrpc::Reply*) { status = s; })
          .ok());
  client.reset();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(RunUntil([&] { return server->held.empty() || server->server->connections() == 1; }));
  world->RunFor(sim::Simulation::kSecond);
  server->AnswerHeld();
  EXPECT_TRUE(RunUntil([&] { return server->server->connections() == 0; }));
}

TEST_F(MirrorTest, ACallbackOfTheDestructorCannotConnectAgain) {
  StartSimulation();
  StartServer();
  StartClient();
  std::optional<absl::Status> again;
  Client* const raw = client.get();
  const SocketAddress address{nodes[1]->gid(), kTestPort};
  ASSERT_TRUE(raw->Connect(
                     address, [](const absl::Status&) {},
                     [&](const absl::Status&) { again = raw->Connect(address, nullptr, nullptr); })
                  .ok());
  ASSERT_TRUE(RunUntil([&] { return raw->connected(); }));
  client.reset();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->code(), absl::StatusCode::kFailedPrecondition);
  world->RunFor(sim::Simulation::kSecond);
}

TEST_F(MirrorTest, CallsSurviveLossDuplicationAndReordering) {
  for (uint64_t seed = 1; seed <= 10 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    StartSimulation(seed,
                    {.loss = 0.02, .duplication = 0.02, .reordering = 0.02, .corruption = 0.01});
    StartServer();
    StartClient();
    ConnectClient();
    for (int i = 0; i < 10 && !HasFailure(); ++i) {
      Echo(world->random().Below(5000) * 4);
      const size_t bytes = world->random().Below(60'000);
      EXPECT_EQ(Put(bytes), absl::OkStatus());
      EXPECT_EQ(Get(bytes, bytes + 1 + world->random().Below(100)), absl::OkStatus());
    }
    TearDown();
  }
}

}  // namespace
}  // namespace pollux::rpcrdma
