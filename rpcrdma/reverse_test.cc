// Calls from the server to the client on the connection that the client made.
#include "rpcrdma/mirror_for_test.h"
#include "rpcrdma/raw_peer_for_test.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kCallbackProgram = 0x40000000;
enum CallbackProcedure : uint32_t { kCallbackNull = 0, kCallbackEcho = 1, kCallbackHold = 2 };
constexpr uint32_t kMaxCallback = 8192;
constexpr uint32_t kReverseCredits = 3;

oncrpc::ProgramBinding CallbackBinding() {
  return {.program = kCallbackProgram,
          .version = 1,
          .procedures = {{.number = kCallbackNull},
                         {.number = kCallbackEcho,
                          .max_argument_bytes = kMaxCallback,
                          .max_result_bytes = kMaxCallback},
                         {.number = kCallbackHold, .max_argument_bytes = 4}}};
}

class ReverseTest : public MirrorTest {
 protected:
  void StartClientWithCallback(const ClientConfig& config = {.reverse_credits = kReverseCredits}) {
    StartClient(config);
    Program program{.binding = CallbackBinding(), .procedures = {}};
    program.procedures.push_back(
        {kCallbackNull, [](const CallView&, ReplyHandle reply) { reply.Send({}); }});
    program.procedures.push_back({kCallbackEcho, [](const CallView& call, ReplyHandle reply) {
                                    reply.Send(call.arguments);
                                  }});
    program.procedures.push_back({kCallbackHold, [this](const CallView&, ReplyHandle reply) {
                                    callbacks_held.push_back(std::move(reply));
                                    most_held = std::max(most_held, callbacks_held.size());
                                  }});
    ASSERT_TRUE(client->RegisterProgram(std::move(program)).ok());
    ConnectClient();
  }
  void AnswerCallbacks() {
    for (ReplyHandle& handle : callbacks_held) handle.Send({});
    callbacks_held.clear();
  }

  std::vector<ReplyHandle> callbacks_held;
  size_t most_held = 0;
};

// A server that calls back.
class CallbackTest : public ReverseTest {
 protected:
  void Start(const ServerConfig& config = {.reverse_credits = 8},
             const ClientConfig& client_config = {.reverse_credits = kReverseCredits}) {
    StartSimulation();
    StartServer(config);
    StartClientWithCallback(client_config);
    OpenReverse();
  }
  // What a protocol that calls back begins with: a forward call that says so.
  void OpenReverse() {
    ASSERT_TRUE(Run({.procedure = kNull}).ok());
    connection = server->last_connection;
    ASSERT_TRUE(server->server->OpenReverse(connection, CallbackBinding()).ok());
  }
  absl::Status CallBack(const oncrpc::CallRequest& request, std::optional<absl::Status>* status,
                        std::vector<uint8_t>* results = nullptr) {
    return server->server->CallReverse(
        connection, request, [=](absl::Status result, const oncrpc::Reply* reply) {
          EXPECT_FALSE(status->has_value());
          *status = result;
          if (results != nullptr && reply != nullptr) {
            results->assign(reply->results.begin(), reply->results.end());
          }
        });
  }
  uint64_t connection = 0;
};

TEST_F(CallbackTest, TheClientAnswersCallsOfTheServer) {
  Start();
  for (const uint32_t bytes : {0u, 4u, 1000u, 3900u}) {
    const std::vector<uint8_t> arguments = Pattern(bytes);
    std::vector<uint8_t> results;
    std::optional<absl::Status> status;
    ASSERT_TRUE(
        CallBack({.procedure = kCallbackEcho, .arguments = arguments, .max_result_bytes = bytes},
                 &status, &results)
            .ok());
    ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
    EXPECT_TRUE(status->ok()) << *status;
    EXPECT_EQ(results, arguments);
  }
  EXPECT_EQ(client->counters().calls_received, 4u);
  EXPECT_EQ(client->counters().replies_sent, 4u);
  EXPECT_EQ(server->server->counters().replies_received, 4u);
}

// RFC 8167 section 4.2 and section 5.3, and RFC 8267 section 6.5.2: Short Messages, as large as the
// reply threshold of the forward direction.
TEST_F(CallbackTest, CallsAboveTheInlineThresholdAreRefused) {
  Start({.reverse_credits = 8, .send_bytes = 2048, .receive_bytes = 8192});
  const std::vector<uint8_t> bytes = Pattern(kMaxCallback);
  std::optional<absl::Status> status;
  constexpr size_t kFits = 2048 - kMinHeaderBytes - 40;
  oncrpc::CallRequest request{.procedure = kCallbackEcho,
                              .arguments = absl::MakeConstSpan(bytes).first(kFits),
                              .max_result_bytes = kFits};
  ASSERT_TRUE(CallBack(request, &status).ok());
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  request.arguments = absl::MakeConstSpan(bytes).first(kFits + 4);
  EXPECT_EQ(CallBack(request, &status).code(), absl::StatusCode::kInvalidArgument);
  // Nor a reply that could be.
  request.arguments = {};
  request.max_result_bytes.reset();
  EXPECT_EQ(CallBack(request, &status).code(), absl::StatusCode::kInvalidArgument);
}

// RFC 8167 section 4.1 and section 4.3: the client's grant, and neither direction waits for the
// other's credits.
TEST_F(CallbackTest, ReverseCreditsAreIndependent) {
  Start({.credits = 2, .reverse_credits = 8}, {.credits = 2, .reverse_credits = kReverseCredits});
  constexpr int kCalls = 50;
  const uint8_t argument[4] = {};  // of all calls, those that wait too
  int done = 0, callbacks_done = 0;
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(client
                    ->Call({.procedure = kHold},
                           [&](absl::Status s, const oncrpc::Reply*) {
                             EXPECT_TRUE(s.ok()) << s;
                             ++done;
                           })
                    .ok());
    ASSERT_TRUE(server->server
                    ->CallReverse(connection, {.procedure = kCallbackHold, .arguments = argument},
                                  [&](absl::Status s, const oncrpc::Reply*) {
                                    EXPECT_TRUE(s.ok()) << s;
                                    ++callbacks_done;
                                  })
                    .ok());
  }
  // The forward direction is full; the other goes on.
  ASSERT_TRUE(RunUntil([&] {
    EXPECT_LE(callbacks_held.size(), kReverseCredits);
    if (world->random().Chance(0.3)) AnswerCallbacks();
    return callbacks_done == kCalls;
  }));
  EXPECT_EQ(most_held, kReverseCredits);
  EXPECT_EQ(done, 0);
  ASSERT_TRUE(RunUntil([&] {
    server->AnswerHeld();
    return done == kCalls;
  }));
}

// RFC 8167 section 6
TEST_F(CallbackTest, NothingIsCalledBeforeTheReverseDirectionIsOpen) {
  StartSimulation();
  StartServer({.reverse_credits = 8});
  StartClientWithCallback();
  ASSERT_TRUE(Run({.procedure = kNull}).ok());
  connection = server->last_connection;
  std::optional<absl::Status> status;
  EXPECT_EQ(CallBack({.procedure = kCallbackNull}, &status).code(), absl::StatusCode::kNotFound);
  world->RunFor(sim::Simulation::kSecond);
  EXPECT_EQ(client->counters().calls_received, 0u);
  EXPECT_FALSE(status.has_value());
  OpenReverse();
  ASSERT_TRUE(CallBack({.procedure = kCallbackNull}, &status).ok());
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  EXPECT_EQ(client->counters().calls_received, 1u);
}

// RFC 8167 section 7: without a binding nothing is called.
TEST_F(CallbackTest, InvalidReverseChannelsAndCallsAreRefused) {
  Start();
  std::optional<absl::Status> status;
  EXPECT_EQ(server->server->OpenReverse(connection, CallbackBinding()).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(server->server->OpenReverse(connection + 1, CallbackBinding()).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(server->server->OpenReverse(connection, {}).code(), absl::StatusCode::kInvalidArgument);
  const std::vector<uint8_t> body(oncrpc::kMaxAuthBytes + 1);
  EXPECT_EQ(server->server->OpenReverse(connection, CallbackBinding(), {.body = body}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(server->server->CallReverse(connection + 1, {}, nullptr).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CallBack({.procedure = 77}, &status).code(), absl::StatusCode::kInvalidArgument);
}

// The handler holds the reply longer than the connection lives; the client connects again. RFC 8167
// section 5.4
TEST_F(CallbackTest, AConnectionLostWhileACallIsHeldFailsIt) {
  Start({.reverse_credits = 8}, {.reconnect = {.attempts = 3}});
  std::optional<absl::Status> status;
  const uint8_t argument[4] = {};
  ASSERT_TRUE(CallBack({.procedure = kCallbackHold, .arguments = argument}, &status).ok());
  ASSERT_TRUE(RunUntil([&] { return !callbacks_held.empty(); }));
  server->server->Shutdown();
  ASSERT_TRUE(RunUntil([&] { return status.has_value() && client->reconnecting(); }));
  EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server->server->CallReverse(connection, {}, nullptr).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(server->server->Listen(kTestPort).ok());
  ASSERT_TRUE(RunUntil([this] { return client->connected(); }));
  AnswerCallbacks();
  EXPECT_EQ(client->counters().replies_dropped, 1u);
  OpenReverse();
  status.reset();
  ASSERT_TRUE(CallBack({.procedure = kCallbackNull}, &status).ok());
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
}

// A server that obeys nobody.
class RawServerTest : public ReverseTest {
 protected:
  void Start() {
    StartSimulation();
    raw = std::make_unique<RawPeer>(&nodes[1]->worker(), managers[1].get());
    raw->Listen(kTestPort);
    StartClientWithCallback();
    // A forward call is outstanding all the while.
    ASSERT_TRUE(client
                    ->Call({.procedure = kNull},
                           [this](absl::Status s, const oncrpc::Reply*) { forward_status = s; })
                    .ok());
    ASSERT_TRUE(RunUntil([this] { return raw->received.size() == 1; }));
    size_t bytes = 0;
    ASSERT_EQ(ParseHeader(raw->received[0], &forward, &bytes), HeaderStatus::kOk);
  }
  void TearDown() override {
    if (client != nullptr && client->connected()) {
      client->Disconnect();
      EXPECT_TRUE(RunUntil([this] { return ended.has_value(); }));
    }
    client.reset();
    raw.reset();
    MirrorTest::TearDown();
  }
  // Of the forward call's XID: that it is used in the other direction too means nothing.
  Header HeaderOf(Proc proc = Proc::kMsg) const {
    Header header;
    header.xid = forward.xid;
    header.credits = 100;
    header.proc = proc;
    return header;
  }
  RawPeer::Message CallbackOf(uint32_t procedure, uint32_t program = kCallbackProgram) const {
    return CallOf({.xid = forward.xid, .program = program, .version = 1, .procedure = procedure});
  }
  RawPeer::Message Ask(absl::Span<const uint8_t> message) {
    raw->received.clear();
    raw->Send(message);
    if (!RunUntil([this] { return !raw->received.empty(); })) return {};
    return raw->received.front();
  }
  void ExpectChunkError(const RawPeer::Message& answer) {
    ASSERT_EQ(answer.size(), 20u);
    EXPECT_EQ(LoadBe32(&answer[0]), forward.xid);
    EXPECT_EQ(LoadBe32(&answer[12]), static_cast<uint32_t>(Proc::kError));
    EXPECT_EQ(LoadBe32(&answer[16]), static_cast<uint32_t>(ErrorCode::kChunk));
  }
  void ExpectForwardCallIsAnswered() {
    EXPECT_FALSE(forward_status.has_value());
    raw->Send(MessageOf(HeaderOf(), ReplyOf(forward.xid)));
    ASSERT_TRUE(RunUntil([this] { return forward_status.has_value(); }));
    EXPECT_TRUE(forward_status->ok()) << *forward_status;
  }
  std::unique_ptr<RawPeer> raw;
  Header forward;
  std::optional<absl::Status> forward_status;
};

// RFC 8167 section 2.4.1, section 5.1 and section 5.2
TEST_F(RawServerTest, AnXidMayBeUsedInBothDirections) {
  Start();
  const RawPeer::Message answer = Ask(MessageOf(HeaderOf(), CallbackOf(kCallbackNull)));
  Header header;
  size_t at = 0;
  ASSERT_EQ(ParseHeader(answer, &header, &at), HeaderStatus::kOk);
  EXPECT_EQ(header.xid, forward.xid);
  EXPECT_EQ(header.version, 1u);
  EXPECT_EQ(header.proc, Proc::kMsg);
  EXPECT_EQ(header.credits, kReverseCredits);
  oncrpc::ReplyHeader reply;
  ASSERT_EQ(oncrpc::ParseReply(absl::MakeConstSpan(answer).subspan(at), &reply),
            oncrpc::kReplyHeaderBytes);
  EXPECT_EQ(reply.xid, forward.xid);
  EXPECT_EQ(reply.accept_status, oncrpc::AcceptStatus::kSuccess);
  // Its credit value was a request, and grants nothing.
  EXPECT_EQ(client->granted_credits(), 1u);
  ExpectForwardCallIsAnswered();
}

// RFC 8167 section 5.3
TEST_F(RawServerTest, ChunksAreRefused) {
  Start();
  const Segment segment = raw->SegmentAt(0, 100);
  Header read = HeaderOf(), write = HeaderOf(), reply = HeaderOf(), pulled = HeaderOf(Proc::kNomsg);
  read.chunks.AddRead(44, segment);
  write.chunks.AddWriteChunk({&segment, 1});
  reply.chunks.SetReply({&segment, 1});
  pulled.chunks.AddRead(0, segment);
  ExpectChunkError(Ask(MessageOf(read, CallbackOf(kCallbackEcho))));
  ExpectChunkError(Ask(MessageOf(write, CallbackOf(kCallbackEcho))));
  ExpectChunkError(Ask(MessageOf(reply, CallbackOf(kCallbackEcho))));
  ExpectChunkError(Ask(MessageOf(pulled)));
  EXPECT_EQ(client->counters().chunk_errors_sent, 4u);
  EXPECT_EQ(client->counters().bytes_read, 0u);
  ExpectForwardCallIsAnswered();
}

// RFC 8166 section 4.5.1 and section 4.5.2, in this direction too; RFC 8167 section 4.1: what does
// not tell its direction has no credit value.
TEST_F(RawServerTest, MalformedCallsGetTheMatchingError) {
  Start();
  const uint32_t xid = forward.xid ^ 1;
  Header header = HeaderOf();
  header.xid = xid;
  const RawPeer::Message callback =
      CallOf({.xid = xid, .program = kCallbackProgram, .version = 1, .procedure = kCallbackNull});
  Header version = header, padded = header;
  version.version = 2;
  padded.proc = Proc::kMsgp;
  RawPeer::Message marker = MessageOf(header, callback), proc = marker, neither = marker;
  marker[kFixedBytes + 3] = 2;
  proc[kProcAt + 3] = 5;
  neither[kMinHeaderBytes + 7] = 2;  // msg_type
  RawPeer::Message nowhere = MessageOf(header);
  nowhere[kProcAt + 3] = static_cast<uint8_t>(Proc::kNomsg);
  for (const RawPeer::Message& message :
       {marker, proc, neither, nowhere, MessageOf(padded, callback), MessageOf(header)}) {
    const RawPeer::Message answer = Ask(message);
    ASSERT_EQ(answer.size(), 20u);
    EXPECT_EQ(LoadBe32(&answer[kXidAt]), xid);
    EXPECT_EQ(LoadBe32(&answer[kCreditsAt]), 1u);
    EXPECT_EQ(LoadBe32(&answer[kProcAt]), static_cast<uint32_t>(Proc::kError));
    EXPECT_EQ(LoadBe32(&answer[kFixedBytes]), static_cast<uint32_t>(ErrorCode::kChunk));
  }
  const RawPeer::Message answer = Ask(MessageOf(version, callback));
  ASSERT_EQ(answer.size(), 28u);
  EXPECT_EQ(LoadBe32(&answer[kXidAt]), xid);
  EXPECT_EQ(LoadBe32(&answer[kFixedBytes]), static_cast<uint32_t>(ErrorCode::kVersion));
  EXPECT_EQ(LoadBe32(&answer[kFixedBytes + 4]), 1u);
  EXPECT_EQ(LoadBe32(&answer[kFixedBytes + 8]), 1u);
  ExpectForwardCallIsAnswered();
}

// RFC 8797 section 4.1
TEST_F(RawServerTest, InvalidationByACallEndsTheConnection) {
  Start();
  ExpectForwardCallIsAnswered();
  raw->received.clear();
  uint8_t argument[4];
  StoreBe32(argument, 10'000);
  std::vector<uint8_t> buffer(10'000);
  const absl::Span<uint8_t> room = absl::MakeSpan(buffer);
  forward_status.reset();
  ASSERT_TRUE(client
                  ->Call({.procedure = kGet, .arguments = argument, .item_buffers = {&room, 1}},
                         [this](absl::Status s, const oncrpc::Reply*) { forward_status = s; })
                  .ok());
  ASSERT_TRUE(RunUntil([this] { return raw->received.size() == 1; }));
  size_t bytes = 0;
  ASSERT_EQ(ParseHeader(raw->received[0], &forward, &bytes), HeaderStatus::kOk);
  raw->Send(MessageOf(HeaderOf(), CallbackOf(kCallbackNull)), forward.chunks.segments[0].handle);
  ASSERT_TRUE(RunUntil([this] { return ended.has_value(); }));
  EXPECT_EQ(client->counters().bad_invalidations, 1u);
  EXPECT_EQ(client->counters().calls_received, 0u);
  EXPECT_EQ(forward_status->code(), absl::StatusCode::kUnavailable);
}

// RFC 8167 section 6: who is not prepared says so, and loses nothing.
TEST_F(RawServerTest, UnknownProgramsAreUnavailable) {
  Start();
  const RawPeer::Message answer =
      Ask(MessageOf(HeaderOf(), CallbackOf(kCallbackNull, kCallbackProgram + 1)));
  oncrpc::ReplyHeader reply;
  ASSERT_GT(answer.size(), kMinHeaderBytes);
  ASSERT_NE(oncrpc::ParseReply(absl::MakeConstSpan(answer).subspan(kMinHeaderBytes), &reply), 0u);
  EXPECT_EQ(reply.accept_status, oncrpc::AcceptStatus::kProgramUnavailable);
  ExpectForwardCallIsAnswered();
}

// A client that obeys nobody, at a server that calls it back.
class RawClientTest : public MirrorTest {
 protected:
  void Start(const ServerConfig& config = {.reverse_credits = 8}) {
    StartSimulation();
    StartServer(config);
    raw = std::make_unique<RawPeer>(&nodes[0]->worker(), managers[0].get());
    raw->Connect({nodes[1]->gid(), kTestPort});
    ASSERT_TRUE(RunUntil([this] { return raw->connected(); }));
    CallNull();
    ASSERT_TRUE(server->server->OpenReverse(server->last_connection, CallbackBinding()).ok());
    StartCall();
  }
  void StartCall() {
    raw->received.clear();
    status.reset();
    ASSERT_TRUE(server->server
                    ->CallReverse(server->last_connection, {.procedure = kCallbackNull},
                                  [this](absl::Status s, const oncrpc::Reply*) {
                                    EXPECT_FALSE(status.has_value());
                                    status = s;
                                  })
                    .ok());
    ASSERT_TRUE(RunUntil([this] { return raw->received.size() == 1; }));
    size_t bytes = 0;
    ASSERT_EQ(ParseHeader(raw->received[0], &call, &bytes), HeaderStatus::kOk);
  }
  void TearDown() override {
    raw.reset();
    MirrorTest::TearDown();
  }
  void SendNull(uint32_t xid) {
    raw->Send(
        MessageOf(HeaderOf(xid), CallOf({.xid = xid, .program = kMirrorProgram, .version = 1})));
  }
  // A forward call, which is answered.
  void CallNull() {
    raw->received.clear();
    SendNull(1);
    ASSERT_TRUE(RunUntil([this] { return raw->received.size() == 1; }));
    raw->received.clear();
  }
  static Header HeaderOf(uint32_t xid) {
    Header header;
    header.xid = xid;
    header.credits = 8;
    return header;
  }
  void ExpectDiscarded(const RawPeer::Message& reply, uint64_t Counters::*counter) {
    const uint64_t before = server->server->counters().*counter;
    raw->Send(reply);
    ASSERT_TRUE(RunUntil([&] { return server->server->counters().*counter == before + 1; }));
  }

  std::unique_ptr<RawPeer> raw;
  Header call;  // the server's
  std::optional<absl::Status> status;
};

// RFC 8167 section 5.1
TEST_F(RawClientTest, CallsHaveTheRequiredHeaders) {
  Start();
  EXPECT_EQ(call.version, 1u);
  EXPECT_EQ(call.proc, Proc::kMsg);
  oncrpc::CallHeader rpc;
  ASSERT_NE(oncrpc::ParseCall(absl::MakeConstSpan(raw->received[0]).subspan(kMinHeaderBytes), &rpc),
            0u);
  EXPECT_EQ(rpc.xid, call.xid);
  raw->Send(MessageOf(HeaderOf(call.xid), ReplyOf(call.xid)));
  ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
}

TEST_F(RawClientTest, RepliesWithUnknownXidsAreDiscarded) {
  Start();
  const RawPeer::Message good = MessageOf(HeaderOf(call.xid), ReplyOf(call.xid));
  Header error = HeaderOf(call.xid ^ 1);
  error.proc = Proc::kError;
  error.error = ErrorCode::kChunk;
  ExpectDiscarded(MessageOf(HeaderOf(call.xid ^ 1), ReplyOf(call.xid ^ 1)),
                  &Counters::unknown_xids);
  ExpectDiscarded(MessageOf(error), &Counters::unknown_xids);
  EXPECT_FALSE(status.has_value());
  raw->Send(good);
  ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
  ExpectDiscarded(good, &Counters::unknown_xids);
  CallNull();
}

TEST_F(RawClientTest, MalformedRepliesFailTheirCall) {
  Start();
  raw->Send(MessageOf(HeaderOf(call.xid), ReplyOf(call.xid ^ 1)));
  ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
  EXPECT_EQ(status->code(), absl::StatusCode::kDataLoss) << *status;
  StartCall();
  const Segment segment = raw->SegmentAt(0, 100);
  Header chunks = HeaderOf(call.xid);
  chunks.chunks.AddWriteChunk({&segment, 1});
  raw->Send(MessageOf(chunks, ReplyOf(call.xid)));
  ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
  EXPECT_EQ(status->code(), absl::StatusCode::kDataLoss) << *status;
  EXPECT_EQ(server->server->counters().bad_rpc_replies, 1u);
  EXPECT_EQ(server->server->counters().bad_reply_chunks, 1u);
  StartCall();
  raw->Send(MessageOf(HeaderOf(call.xid), ReplyOf(call.xid)));
  ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
}

// Replies that the client does not receive fill the send queue, which both directions share.
TEST_F(RawClientTest, ACallThatFindsTheSendQueueFullIsSentLater) {
  constexpr uint32_t kServerSendQueue = 512;
  constexpr uint32_t kNulls = RawPeer::kReceives + kServerSendQueue;
  Start({.credits = 256, .reverse_credits = 8});
  raw->Send(MessageOf(HeaderOf(call.xid), ReplyOf(call.xid)));
  ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
  const Counters& counters = server->server->counters();
  const uint64_t replies = counters.replies_sent, calls = counters.calls_sent;
  raw->repost = false;
  raw->sent.clear();
  for (uint32_t sent = 1; sent <= kNulls; ++sent) {
    SendNull(1 + sent);
    ASSERT_TRUE(RunUntil([&] { return raw->sent.size() >= sent; })) << sent;
  }
  ASSERT_TRUE(RunUntil([&] { return counters.replies_sent == replies + kNulls; }));
  ASSERT_TRUE(server->server
                  ->CallReverse(server->last_connection, {.procedure = kCallbackNull},
                                [](const absl::Status&, const oncrpc::Reply*) {})
                  .ok());
  world->RunFor(sim::Simulation::kSecond / 100);
  EXPECT_EQ(counters.calls_sent, calls);
  raw->Repost();
  EXPECT_TRUE(RunUntil([&] { return counters.calls_sent == calls + 1; }));
}

}  // namespace
}  // namespace pollux::rpcrdma
