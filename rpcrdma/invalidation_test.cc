// Remote invalidation: replies that take away what their call offered.
#include "rpcrdma/mirror_for_test.h"
#include "rpcrdma/raw_peer_for_test.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kCallXid = 0x600DF00D;
constexpr uint32_t kItem = 10'000;  // more than a message takes

class InvalidationTest : public MirrorTest {
 protected:
  void Start(bool client_may, bool server_may) {
    StartSimulation();
    StartServer({.remote_invalidation = server_may});
    StartClient({.remote_invalidation = client_may});
    ConnectClient();
  }
  uint64_t sent() { return server->server->counters().invalidations_sent; }
  uint64_t taken() { return client->counters().remote_invalidations; }
};

// RFC 8797 section 3.2 and section 4.1
TEST_F(InvalidationTest, OneKeyIsInvalidatedByTheReply) {
  Start(true, true);
  EXPECT_TRUE(client->negotiated().remote_invalidation());
  EXPECT_TRUE(Put(kItem).ok());
  EXPECT_TRUE(Get(kItem, kItem).ok());
  EXPECT_TRUE(Get(0, kItem).ok());  // the chunk is returned unused, and invalidated
  EXPECT_EQ(sent(), 3u);
  EXPECT_EQ(taken(), 3u);
  // No chunk, and nothing to invalidate.
  Echo(100);
  EXPECT_TRUE(Put(100).ok());
  // The RPC header, the arguments and the Reply chunk: several keys.
  Echo(20'000);
  EXPECT_EQ(sent(), 3u);
  // An error takes nothing away.
  EXPECT_EQ(Get(9000, 8999).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(sent(), 3u);
  EXPECT_TRUE(Get(kItem, kItem).ok());
  EXPECT_EQ(taken(), 4u);
}

// RFC 8797 section 4.1: only when both say so.
TEST_F(InvalidationTest, NothingIsInvalidatedUnlessBothSidesAnnounceIt) {
  for (const auto& [client_may, server_may] : {std::pair{true, false}, {false, true}}) {
    Start(client_may, server_may);
    EXPECT_TRUE(Put(kItem).ok());
    EXPECT_TRUE(Get(kItem, kItem).ok());
    EXPECT_EQ(sent(), 0u);
    EXPECT_EQ(taken(), 0u);
    TearDown();
  }
}

class InvalidatingServerTest : public MirrorTest {
 protected:
  void Start(bool client_may, bool server_may) {
    StartSimulation();
    hostile = std::make_unique<RawPeer>(&nodes[1]->worker(), managers[1].get());
    hostile->remote_invalidation = server_may;
    hostile->Listen(kTestPort);
    StartClient({.remote_invalidation = client_may});
    ConnectClient();
  }
  void TearDown() override {
    if (client != nullptr && client->connected()) {
      client->Disconnect();
      EXPECT_TRUE(RunUntil([this] { return ended.has_value(); }));
    }
    client.reset();
    hostile.reset();
    MirrorTest::TearDown();
  }
  void StartGet(int i, uint64_t timeout_ns = 0, oncrpc::CallId* id = nullptr) {
    StoreBe32(argument, kItem);
    status[i].reset();
    rooms[i] = absl::MakeSpan(memory[i]);
    const size_t before = hostile->received.size();
    ASSERT_TRUE(client
                    ->Call(
                        {.procedure = kGet,
                         .arguments = argument,
                         .item_buffers = {&rooms[i], 1},
                         .timeout_ns = timeout_ns},
                        [this, i](absl::Status s, const oncrpc::Reply*) { status[i] = s; }, id)
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return hostile->received.size() > before; }));
    size_t bytes = 0;
    ASSERT_EQ(ParseHeader(hostile->received.back(), &calls[i], &bytes), HeaderStatus::kOk);
    ASSERT_EQ(calls[i].chunks.segment_count, 1);
  }
  uint32_t KeyOf(int i) const { return calls[i].chunks.segments[0].handle; }
  void Reply(int i, uint32_t invalidate) {
    Header header;
    header.xid = calls[i].xid;
    header.credits = 32;
    header.chunks = calls[i].chunks;
    header.chunks.segments[0].length = 0;
    hostile->Send(MessageOf(header, ReplyOf(header.xid)), invalidate);
  }

  std::unique_ptr<RawPeer> hostile;
  uint8_t argument[4];
  std::vector<uint8_t> memory[2] = {std::vector<uint8_t>(kItem), std::vector<uint8_t>(kItem)};
  absl::Span<uint8_t> rooms[2];
  std::optional<absl::Status> status[2];
  Header calls[2];
};

// RFC 8797 section 4.1
TEST_F(InvalidatingServerTest, InvalidatingTheKeyOfAnotherCallEndsTheConnection) {
  Start(true, true);
  StartGet(0);
  Reply(0, KeyOf(0));
  ASSERT_TRUE(RunUntil([this] { return status[0].has_value(); }));
  EXPECT_TRUE(status[0]->ok()) << *status[0];
  EXPECT_EQ(client->counters().remote_invalidations, 1u);
  StartGet(0);
  StartGet(1);
  EXPECT_NE(KeyOf(0), KeyOf(1));
  Reply(0, KeyOf(1));
  ASSERT_TRUE(RunUntil([this] { return ended.has_value(); }));
  EXPECT_EQ(client->counters().bad_invalidations, 1u);
  for (const auto& s : status) EXPECT_EQ(s->code(), absl::StatusCode::kUnavailable);
}

// RFC 8797 section 4.1: whoever answers cannot know that nobody waits any more.
TEST_F(InvalidatingServerTest, ALateReplyThatInvalidatesIsDiscarded) {
  Start(true, true);
  for (const bool cancelled : {false, true}) {
    SCOPED_TRACE(cancelled);
    oncrpc::CallId id;
    StartGet(0, cancelled ? 0 : 100'000'000, &id);
    if (cancelled) {
      EXPECT_TRUE(client->Cancel(id));
    } else {
      ASSERT_TRUE(RunUntil([this] { return status[0].has_value(); }));
      EXPECT_EQ(status[0]->code(), absl::StatusCode::kDeadlineExceeded);
    }
    EXPECT_EQ(client->advertised_regions(), 0u);
    Reply(0, KeyOf(0));
    const uint64_t late = cancelled ? 2 : 1;
    ASSERT_TRUE(RunUntil([&] { return client->counters().late_replies == late; }));
    EXPECT_EQ(client->counters().remote_invalidations, late);
  }
  EXPECT_FALSE(ended.has_value());
  StartGet(0);
  Reply(0, KeyOf(0));
  ASSERT_TRUE(RunUntil([this] { return status[0].has_value(); }));
  EXPECT_TRUE(status[0]->ok()) << *status[0];
}

// As Linux's server does: it heeds what the client says, and says nothing itself.
TEST_F(InvalidatingServerTest, AServerThatDoesNotAnnounceInvalidationMayInvalidate) {
  Start(true, false);
  StartGet(0);
  Reply(0, KeyOf(0));
  ASSERT_TRUE(RunUntil([this] { return status[0].has_value(); }));
  EXPECT_TRUE(status[0]->ok()) << *status[0];
  EXPECT_EQ(client->counters().remote_invalidations, 1u);
}

// The key of a client that has not said so cannot be taken away.
TEST_F(InvalidatingServerTest, InvalidationThatTheClientDidNotAnnounceFails) {
  Start(false, true);
  StartGet(0);
  Reply(0, KeyOf(0));
  ASSERT_TRUE(RunUntil([this] { return ended.has_value(); }));
  ASSERT_TRUE(RunUntil([this] { return !hostile->sent.empty(); }));
  EXPECT_EQ(hostile->sent[0], IBV_WC_SUCCESS)
      << "acknowledged, and then the queue pair is in error";
  EXPECT_EQ(client->counters().remote_invalidations, 0u);
  EXPECT_EQ(status[0]->code(), absl::StatusCode::kUnavailable);
}

// Clients whose memory cannot be taken away: that it was tried ends their connection.
class InvalidatedClientTest : public MirrorTest {
 protected:
  void Start(bool client_may) {
    StartSimulation();
    StartServer();
    hostile = std::make_unique<RawPeer>(&nodes[0]->worker(), managers[0].get());
    hostile->remote_invalidation = client_may;
    hostile->Connect({nodes[1]->gid(), kTestPort});
    ASSERT_TRUE(RunUntil([this] { return hostile->connected(); }));
  }
  void TearDown() override {
    hostile.reset();
    MirrorTest::TearDown();
  }
  // Whether the reply to a call that offers these was a plain Send.
  bool IsAnswered(absl::Span<const Segment> segments) {
    Header header;
    header.xid = kCallXid;
    header.credits = 8;
    header.chunks.AddWriteChunk(segments);
    uint8_t length[4];
    StoreBe32(length, 100);
    const oncrpc::CallHeader call{
        .xid = kCallXid, .program = kMirrorProgram, .version = 1, .procedure = kGet};
    hostile->Send(MessageOf(header, CallOf(call, length)));
    EXPECT_TRUE(RunUntil([this] { return !hostile->received.empty() || hostile->ended(); }));
    return !hostile->received.empty();
  }
  std::unique_ptr<RawPeer> hostile;
};

// RFC 8797 section 4.1
TEST_F(InvalidatedClientTest, AKeyInSeveralSegmentsIsNotInvalidated) {
  Start(true);
  EXPECT_FALSE(IsAnswered({hostile->SegmentAt(0, 50), hostile->SegmentAt(64, 100)}));
}
TEST_F(InvalidatedClientTest, OneOfSeveralKeysIsInvalidated) {
  Start(true);
  Segment other = hostile->SegmentAt(0, 0);
  other.handle ^= 0x100;
  EXPECT_TRUE(IsAnswered({hostile->SegmentAt(64, 100), other}));
}
TEST_F(InvalidatedClientTest, WithoutAnAnnouncementNothingIsInvalidated) {
  Start(false);
  EXPECT_TRUE(IsAnswered({hostile->SegmentAt(64, 100)}));
}

}  // namespace
}  // namespace pollux::rpcrdma
