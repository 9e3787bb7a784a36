// Servers that obey nobody, and what a client still holds to: its memory is its own once a call is
// done, and what is wrong with a reply is discarded and counted.
#include "cm/wire/mad.h"
#include "rpcrdma/connection/settings.h"
#include "rpcrdma/mirror_for_test.h"
#include "rpcrdma/raw_peer_for_test.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kItem = 10'000;  // more than a message takes
constexpr size_t kArguments = 20'000;

class HostileServerTest : public MirrorTest {
 protected:
  void StartHostile() {
    StartSimulation();
    hostile = std::make_unique<RawPeer>(&nodes[1]->worker(), managers[1].get());
    hostile->Listen(kTestPort);
    StartClient();
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

  // A call that offers a Write chunk.
  absl::Status StartGet(uint64_t timeout_ns = 0) {
    StoreBe32(argument, kItem);
    return Start({.procedure = kGet,
                  .arguments = argument,
                  .item_buffers = {&item_room, 1},
                  .timeout_ns = timeout_ns});
  }
  // A call that offers a position-zero Read chunk in two segments, and a Reply chunk.
  absl::Status StartEcho(uint64_t timeout_ns = 0) {
    return Start({.procedure = kEcho,
                  .arguments = arguments,
                  .reply_buffer = absl::MakeSpan(reply_buffer),
                  .timeout_ns = timeout_ns});
  }
  // A call that offers a Read chunk.
  absl::Status StartPut() {
    oncrpc::XdrWriter out(absl::MakeSpan(put_argument));
    out.Uint32(1);
    const size_t position = out.EligibleOpaque(kItem);
    out.Uint32(2);
    item = {item_buffer, position};
    return Start({.procedure = kPut, .arguments = out.bytes(), .items = {&item, 1}});
  }
  absl::Status Start(const oncrpc::CallRequest& request) {
    status.reset();
    const auto done = [this](absl::Status result, const oncrpc::Reply* reply) {
      EXPECT_FALSE(status.has_value()) << "called back twice";
      status = result;
      if (on_done) on_done(reply);
    };
    absl::Status s = client->Call(request, done, &id);
    if (!s.ok()) return s;
    return RunUntil([this] { return hostile->received.size() > taken; })
               ? absl::OkStatus()
               : absl::UnknownError("no call arrived");
  }
  // The transport header of the call that arrived last.
  const Header& TakeCall() {
    size_t bytes = 0;
    EXPECT_EQ(ParseHeader(hostile->received[taken++], &call, &bytes), HeaderStatus::kOk);
    return call;
  }
  Header ReplyHeader() const {
    Header header;
    header.xid = call.xid;
    header.credits = 32;
    header.chunks = call.chunks;
    header.chunks.read_count = 0;
    for (Segment& segment : header.chunks.segments) segment.length = 0;
    return header;
  }
  RawPeer::Message GoodReply() const { return MessageOf(ReplyHeader(), ReplyOf(call.xid)); }
  // Nothing comes of it but a count.
  void ExpectDiscarded(absl::Span<const uint8_t> reply, uint64_t Counters::*counter) {
    const uint64_t before = client->counters().*counter;
    hostile->Send(reply);
    world->RunFor(1'000'000);
    EXPECT_EQ(client->counters().*counter, before + 1);
    EXPECT_FALSE(status.has_value());
    EXPECT_FALSE(ended.has_value());
  }
  // The call ends, and what it had is free again.
  void ExpectFailed(absl::Span<const uint8_t> reply, uint64_t Counters::*counter) {
    const uint64_t before = client->counters().*counter;
    hostile->Send(reply);
    ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
    EXPECT_EQ(status->code(), absl::StatusCode::kDataLoss) << *status;
    EXPECT_EQ(client->counters().*counter, before + 1);
    EXPECT_EQ(client->advertised_regions(), 0u);
    EXPECT_FALSE(ended.has_value());
  }
  // A call, and its reply as `change` has it.
  void ExpectFailed(const std::function<absl::Status()>& start,
                    const std::function<RawPeer::Message(Header& reply)>& change,
                    uint64_t Counters::*counter) {
    ASSERT_TRUE(start().ok());
    TakeCall();
    Header reply = ReplyHeader();
    ExpectFailed(change(reply), counter);
  }
  void ExpectGoodReplyEndsIt() {
    hostile->Send(GoodReply());
    ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
    EXPECT_TRUE(status->ok()) << *status;
    EXPECT_EQ(client->advertised_regions(), 0u);
  }

  uint8_t argument[4];
  uint8_t put_argument[12];
  std::vector<uint8_t> item_buffer = std::vector<uint8_t>(kItem, 0xEE);
  const absl::Span<uint8_t> item_room = absl::MakeSpan(item_buffer);
  oncrpc::EligibleItem item;
  std::vector<uint8_t> arguments = Pattern(kArguments);
  std::vector<uint8_t> reply_buffer =
      std::vector<uint8_t>(oncrpc::kReplyHeaderBytes + kMaxEcho, 0xEE);
  std::optional<absl::Status> status;
  oncrpc::CallId id;
  std::function<void(const oncrpc::Reply*)> on_done;
  std::unique_ptr<RawPeer> hostile;
  Header call;
  size_t taken = 0;
};

// RFC 8166 section 4.4.1 and RFC 5042 section 10.2: locked out before the caller is told. Each way
// to offer memory, once while the call is outstanding, which is what the key is for, and once from
// the moment that the callback has begun.
class FenceTest : public HostileServerTest {
 protected:
  void Attack(const Segment& segment, bool read) {
    if (read) {
      hostile->Read(0, segment);
    } else {
      hostile->Write(0, segment);
    }
  }
  void Expect(const Segment& segment, bool read) {
    ASSERT_GE(segment.length, 8u);
    Attack({segment.handle, 8, segment.offset}, read);
    ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 1; }));
    EXPECT_EQ(hostile->sent[0], IBV_WC_SUCCESS) << "the key is good while the call lasts";
    const std::vector<uint8_t> placed = item_buffer, reply = reply_buffer;
    std::fill_n(hostile->memory(), RawPeer::kMemoryBytes, 0x66);
    on_done = [&](const oncrpc::Reply*) {
      EXPECT_EQ(client->advertised_regions(), 0u);
      Attack(segment, read);
    };
    hostile->Send(GoodReply());
    ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 3; }));
    EXPECT_EQ(hostile->sent[2], IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(status.has_value());
    EXPECT_EQ(item_buffer, placed);
    EXPECT_EQ(reply_buffer, reply);
    EXPECT_TRUE(std::all_of(hostile->memory(), hostile->memory() + RawPeer::kMemoryBytes,
                            [](uint8_t byte) { return byte == 0x66; }));
  }
};

TEST_F(FenceTest, AWriteChunkIsFencedByTheReply) {
  StartHostile();
  ASSERT_TRUE(StartGet().ok());
  ASSERT_EQ(TakeCall().chunks.write_chunk_count, 1);
  Expect(call.chunks.segments[0], /*read=*/false);
}

TEST_F(FenceTest, AReplyChunkIsFencedByTheReply) {
  StartHostile();
  ASSERT_TRUE(StartEcho().ok());
  ASSERT_TRUE(TakeCall().chunks.has_reply);
  Expect(call.chunks.segments[0], /*read=*/false);
}

TEST_F(FenceTest, AReadChunkIsFencedByTheReply) {
  StartHostile();
  ASSERT_TRUE(StartPut().ok());
  ASSERT_EQ(TakeCall().chunks.read_count, 1);
  Expect(call.chunks.reads[0].target, /*read=*/true);
}

TEST_F(FenceTest, APositionZeroReadChunkIsFencedByTheReply) {
  StartHostile();
  ASSERT_TRUE(StartEcho().ok());
  ASSERT_EQ(TakeCall().chunks.read_count, 2);
  Expect(call.chunks.reads[1].target, /*read=*/true);
}

TEST_F(FenceTest, ATimedOutCallIsFenced) {
  StartHostile();
  ASSERT_TRUE(StartGet(1'000'000).ok());
  const Segment segment = TakeCall().chunks.segments[0];
  on_done = [&](const oncrpc::Reply*) { Attack(segment, /*read=*/false); };
  ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 1; }));
  EXPECT_EQ(hostile->sent[0], IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(status->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(item_buffer, std::vector<uint8_t>(kItem, 0xEE));
}

// RFC 8166 section 8.1.3: the server does not know that nobody waits any more.
TEST_F(FenceTest, ACancelledCallIsFenced) {
  StartHostile();
  ASSERT_TRUE(StartGet().ok());
  const Segment segment = TakeCall().chunks.segments[0];
  EXPECT_TRUE(client->Cancel(id));
  EXPECT_EQ(client->advertised_regions(), 0u);
  Attack(segment, /*read=*/false);
  ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 1; }));
  EXPECT_EQ(hostile->sent[0], IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(item_buffer, std::vector<uint8_t>(kItem, 0xEE));
  EXPECT_FALSE(status.has_value());
}

// What is offered for one direction is not for the other, and not past its end. RFC 5042 sections
// 6.3.3, 6.3.4, 6.3.5, 6.3.6 and 6.4.5
TEST_F(FenceTest, KeysAllowOnlyTheirDirectionAndLength) {
  for (const bool read : {true, false}) {
    taken = 0;
    StartHostile();
    ASSERT_TRUE(read ? StartGet().ok() : StartPut().ok());
    TakeCall();
    const Segment segment = read ? call.chunks.segments[0] : call.chunks.reads[0].target;
    Attack(segment, read);
    ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 1; }));
    EXPECT_EQ(hostile->sent[0], IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(item_buffer, std::vector<uint8_t>(kItem, 0xEE));
    TearDown();
  }
  taken = 0;
  StartHostile();
  ASSERT_TRUE(StartGet().ok());
  const Segment segment = TakeCall().chunks.segments[0];
  Attack({segment.handle, 2, segment.offset + segment.length - 1}, /*read=*/false);
  ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 1; }));
  EXPECT_EQ(hostile->sent[0], IBV_WC_REM_ACCESS_ERR);
}

// RFC 5042 section 3 and section 6.1.1: servers do not trust each other, and each connection has a
// protection domain of its own.
TEST_F(FenceTest, AKeyOfferedOnAnotherConnectionIsRefused) {
  constexpr uint16_t kOtherPort = kTestPort + 1;
  StartHostile();
  std::optional<absl::Status> other_connected, other_ended;
  RawPeer other_server(&nodes[1]->worker(), managers[1].get());
  other_server.Listen(kOtherPort);
  auto made = Client::Create(&nodes[0]->worker(), managers[0].get(), MirrorBinding());
  ASSERT_TRUE(made.ok()) << made.status();
  const std::unique_ptr<Client> other_client = *std::move(made);
  ASSERT_TRUE(other_client
                  ->Connect(
                      {nodes[1]->gid(), kOtherPort}, [&](absl::Status s) { other_connected = s; },
                      [&](absl::Status s) { other_ended = s; })
                  .ok());
  ASSERT_TRUE(RunUntil([&] { return other_connected.has_value() && other_server.connected(); }));
  ASSERT_TRUE(other_connected->ok()) << *other_connected;

  ASSERT_TRUE(StartGet().ok());
  const Segment segment = TakeCall().chunks.segments[0];
  other_server.Write(0, {segment.handle, 8, segment.offset});
  ASSERT_TRUE(RunUntil([&] { return other_server.sent.size() == 1 && other_ended.has_value(); }));
  EXPECT_EQ(other_server.sent[0], IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(item_buffer, std::vector<uint8_t>(kItem, 0xEE));
  ExpectGoodReplyEndsIt();
}

// RFC 5042 section 6.3.2 and section 10.2: what may be read is the call, and nothing that the
// memory held before.
TEST_F(FenceTest, ReadChunksExposeOnlyTheCall) {
  StartHostile();
  ASSERT_TRUE(StartEcho().ok());
  ASSERT_EQ(TakeCall().chunks.read_count, 2);
  const Segment header = call.chunks.reads[0].target, rest = call.chunks.reads[1].target;
  ASSERT_EQ(header.length, oncrpc::CallHeaderBytes({}));
  ASSERT_EQ(rest.length, kArguments);
  hostile->Read(0, header);
  hostile->Read(header.length, rest);
  ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 2; }));
  EXPECT_EQ(hostile->sent, std::vector<ibv_wc_status>(2, IBV_WC_SUCCESS));
  oncrpc::CallHeader rpc;
  EXPECT_EQ(oncrpc::ParseCall({hostile->memory(), header.length}, &rpc), header.length);
  EXPECT_EQ(rpc.xid, call.xid);
  EXPECT_EQ(rpc.procedure, uint32_t{kEcho});
  EXPECT_TRUE(std::equal(arguments.begin(), arguments.end(), hostile->memory() + header.length));
  hostile->Read(0, {header.handle, header.length + 1, header.offset});
  ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 3; }));
  EXPECT_EQ(hostile->sent[2], IBV_WC_REM_ACCESS_ERR);
}

// RFC 8797 section 5.2: as if there were none.
TEST_F(HostileServerTest, InvalidPrivateDataIsIgnored) {
  StartSimulation();
  hostile = std::make_unique<RawPeer>(&nodes[1]->worker(), managers[1].get());
  hostile->private_data.emplace(cm::Rep::kPrivateBytes, 0xF6);
  hostile->Listen(kTestPort);
  StartClient();
  ConnectClient();
  EXPECT_FALSE(client->negotiated().peer_sent);
  EXPECT_EQ(client->negotiated().thresholds.client_to_server, kMinInlineBytes);
  EXPECT_EQ(client->negotiated().thresholds.server_to_client, kMinInlineBytes);
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  ExpectGoodReplyEndsIt();
}

TEST_F(HostileServerTest, DiscardedMessagesAreLoggedOnce) {
  StartHostile();
  std::vector<std::string> lines;
  client->SetRefusalLog([&lines](const std::string& line) { lines.push_back(line); });
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  Header unknown = ReplyHeader();
  unknown.xid ^= 1;
  for (int i = 0; i < 20; ++i) {
    ExpectDiscarded(MessageOf(unknown, ReplyOf(unknown.xid)), &Counters::unknown_xids);
  }
  world->RunFor(2 * Refusals::kDelayNs);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], absl::StrCat(ToString({nodes[1]->gid(), kTestPort}),
                                   ": a reply to no outstanding call, discarded; 20 so "
                                   "far on this connection"));
  ExpectGoodReplyEndsIt();
}

// RFC 8166 section 4.5: what cannot be a reply is discarded; the call waits for one that can.
TEST_F(HostileServerTest, InvalidRepliesAreDiscarded) {
  StartHostile();
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  const Header good = ReplyHeader();
  const RawPeer::Message rpc = ReplyOf(call.xid);

  for (size_t bytes : {0u, 4u, 15u, 27u}) {
    ExpectDiscarded(std::vector<uint8_t>(bytes, 1), &Counters::short_messages);
  }
  Header bad = good;
  bad.version = 2;
  ExpectDiscarded(MessageOf(bad, rpc), &Counters::bad_reply_headers);
  bad = good;
  bad.xid ^= 1;
  ExpectDiscarded(MessageOf(bad, ReplyOf(bad.xid)), &Counters::unknown_xids);
  // RFC 8166 section 4.6.1 and section 4.6.2
  for (Proc proc : {Proc::kMsgp, Proc::kDone}) {
    bad = good;
    bad.proc = proc;
    RawPeer::Message message = MessageOf(bad, rpc);
    ExpectDiscarded(message, &Counters::obsolete_messages);
  }
  ExpectGoodReplyEndsIt();
  // The same again is for a call that is done.
  const uint64_t unknown = client->counters().unknown_xids;
  hostile->Send(GoodReply());
  hostile->Send(GoodReply());
  world->RunFor(1'000'000);
  EXPECT_EQ(client->counters().unknown_xids, unknown + 2);
}

// The receive that the WRITE completes still holds an earlier message, of another length.
TEST_F(HostileServerTest, AWriteWithImmediateDataIsNoMessage) {
  StartHostile();
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  ExpectGoodReplyEndsIt();
  // In every receive of the client: the reply to its next call.
  Header early = ReplyHeader();
  early.xid = call.xid + 1;
  early.chunks.Clear();
  const uint32_t receives =
      SharesOf(ClientConfig{}.credits, ClientConfig{}.reverse_credits).receives;
  const RawPeer::Message message = MessageOf(early, ReplyOf(early.xid));
  for (uint32_t i = 0; i < receives; ++i) hostile->Send(message);
  ASSERT_TRUE(RunUntil([&] { return client->counters().unknown_xids == receives; }));
  ASSERT_TRUE(StartEcho().ok());
  ASSERT_TRUE(TakeCall().chunks.has_reply);
  ASSERT_EQ(call.xid, early.xid);
  hostile->WriteWithImmediate(0, call.chunks.SegmentsOf(call.chunks.reply)[0]);
  ASSERT_TRUE(
      RunUntil([&] { return client->counters().short_messages == 1 || status.has_value(); }));
  EXPECT_FALSE(status.has_value()) << *status;
  EXPECT_FALSE(ended.has_value());
  // The call's memory is still the server's to write.
  std::ranges::copy(ReplyOf(call.xid), hostile->memory());
  Header reply = ReplyHeader();
  reply.proc = Proc::kNomsg;
  reply.chunks.SegmentsOf(reply.chunks.reply)[0].length = oncrpc::kReplyHeaderBytes;
  Segment to = call.chunks.SegmentsOf(call.chunks.reply)[0];
  to.length = oncrpc::kReplyHeaderBytes;
  hostile->Write(0, to);
  hostile->Send(MessageOf(reply));
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
}

// RFC 8166 section 4.5.2: the first call too, whose credit is the only one.
TEST_F(HostileServerTest, AMalformedHeaderFailsItsCall) {
  StartHostile();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(StartGet().ok());
    TakeCall();
    RawPeer::Message cut = GoodReply();
    cut.resize(kMinHeaderBytes + 4);
    ExpectFailed(cut, &Counters::bad_reply_headers);
  }
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  ExpectGoodReplyEndsIt();
}

// RFC 8166 section 4.3.1 and section 4.3.2: chunks come back as they were offered, and no longer.
TEST_F(HostileServerTest, ChunksThatWereNotOfferedFailTheCall) {
  StartHostile();
  const auto fail = [&](auto change) {
    ExpectFailed([this] { return StartGet(); },
                 [&](Header& reply) {
                   change(reply, call.chunks.segments[0]);
                   return MessageOf(
                       reply, reply.proc == Proc::kMsg ? ReplyOf(call.xid) : RawPeer::Message());
                 },
                 &Counters::bad_reply_chunks);
  };
  fail([](Header& r, const Segment&) { r.chunks.segments[0].length = kItem + 1; });
  fail([](Header& r, const Segment&) { r.chunks.segments[0].length = 0xFFFFFFFF; });
  fail([](Header& r, const Segment&) { r.chunks.segments[0].handle ^= 1; });
  fail([](Header& r, const Segment&) { r.chunks.segments[0].offset += 4; });
  fail([](Header& r, const Segment& offered) { r.chunks.AddWriteChunk({&offered, 1}); });
  fail([](Header& r, const Segment& offered) { r.chunks.SetReply({&offered, 1}); });
  fail([](Header& r, const Segment& offered) {
    r.chunks.Clear();
    const Segment twice[] = {offered, offered};
    r.chunks.AddWriteChunk(twice);
  });
  // No Read list in a reply.
  fail([](Header& r, const Segment&) { r.chunks.AddRead(0, {.handle = 1, .length = 4}); });
  // A reply in a Reply chunk that there is not.
  fail([](Header& r, const Segment&) { r.proc = Proc::kNomsg; });
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  ExpectGoodReplyEndsIt();
}

TEST_F(HostileServerTest, ReplyChunksWithoutAReplyFailTheCall) {
  StartHostile();
  const auto start = [this] { return StartEcho(); };
  // RFC 8166 section 4.3.1: nowhere, or in two places.
  ExpectFailed(
      start,
      [](Header& reply) {
        reply.proc = Proc::kNomsg;
        return MessageOf(reply);
      },
      &Counters::bad_reply_chunks);
  ExpectFailed(
      start,
      [this](Header& reply) {
        reply.chunks.segments[0].length = oncrpc::kReplyHeaderBytes;
        return MessageOf(reply, ReplyOf(call.xid));
      },
      &Counters::bad_reply_chunks);
  // Nobody wrote into the chunk: what it holds is no reply.
  ExpectFailed(
      start,
      [this](Header& reply) {
        reply.proc = Proc::kNomsg;
        reply.chunks.segments[0].length = call.chunks.segments[0].length;
        return MessageOf(reply);
      },
      &Counters::bad_rpc_replies);
  ASSERT_TRUE(StartEcho().ok());
  TakeCall();
  ExpectGoodReplyEndsIt();
}

// RFC 8166 section 3.4.5.2
TEST_F(HostileServerTest, AReadChunkHasNoPad) {
  StartHostile();
  item_buffer.resize(kItem + 1);
  ASSERT_TRUE(StartPut().ok());
  ASSERT_EQ(TakeCall().chunks.read_count, 1);
  EXPECT_EQ(call.chunks.reads[0].target.length, kItem + 1);
  ExpectGoodReplyEndsIt();
}

// RFC 8166 section 3.4.6.2
TEST_F(HostileServerTest, AWriteChunkHasNoRoomForAPad) {
  StartHostile();
  StoreBe32(argument, kItem - 1);
  const absl::Span<uint8_t> odd = item_room.first(kItem - 1);
  ASSERT_TRUE(Start({.procedure = kGet, .arguments = argument, .item_buffers = {&odd, 1}}).ok());
  ASSERT_EQ(TakeCall().chunks.write_chunk_count, 1);
  EXPECT_EQ(call.chunks.segments[0].length, kItem - 1);
  ExpectGoodReplyEndsIt();
}

// RFC 8166 section 4.2.1: both XIDs are the same.
TEST_F(HostileServerTest, ADifferentXidInTheRpcHeaderFailsTheCall) {
  StartHostile();
  const auto start = [this] { return StartGet(); };
  ExpectFailed(
      start, [this](Header& reply) { return MessageOf(reply, ReplyOf(call.xid ^ 1)); },
      &Counters::bad_rpc_replies);
  ExpectFailed(
      start, [](Header& reply) { return MessageOf(reply); }, &Counters::bad_rpc_replies);
  ExpectFailed(
      start,
      [this](Header& reply) {
        RawPeer::Message neither = ReplyOf(call.xid);
        neither[7] = 2;  // msg_type
        return MessageOf(reply, neither);
      },
      &Counters::bad_rpc_replies);
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  ExpectGoodReplyEndsIt();
}

// RFC 8166 section 4.5.1 and section 4.5.2
TEST_F(HostileServerTest, ErrorMessagesFailTheCall) {
  StartHostile();
  for (ErrorCode code : {ErrorCode::kVersion, ErrorCode::kChunk}) {
    ASSERT_TRUE(StartGet().ok());
    TakeCall();
    Header error;
    error.xid = call.xid;
    error.proc = Proc::kError;
    error.error = code;
    error.version_low = error.version_high = 2;
    hostile->Send(MessageOf(error));
    ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
    EXPECT_EQ(status->code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(client->advertised_regions(), 0u);
  }
  EXPECT_EQ(client->counters().errors_received, 2u);
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  // No error that there is, and a grant of no credit at all.
  Header odd = ReplyHeader();
  odd.proc = Proc::kError;
  odd.error = ErrorCode::kChunk;
  RawPeer::Message message = MessageOf(odd);
  message.back() = 7;
  message.resize(kMinHeaderBytes);
  ExpectDiscarded(message, &Counters::bad_reply_headers);
  Header none = ReplyHeader();
  none.credits = 0;
  hostile->Send(MessageOf(none, ReplyOf(call.xid)));
  ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
  EXPECT_EQ(client->granted_credits(), 1u);
}

// The caller has its memory back: what lies there is not looked at, and the credit is free again.
TEST_F(HostileServerTest, AReplyInAChunkAfterTheTimeoutIsDiscarded) {
  StartHostile();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(StartEcho(1'000'000).ok());
    Header late = (TakeCall(), ReplyHeader());
    ASSERT_TRUE(RunUntil([this] { return status.has_value(); }));
    EXPECT_EQ(status->code(), absl::StatusCode::kDeadlineExceeded);
    reply_buffer = std::vector<uint8_t>(reply_buffer.size(), 0x77);
    late.proc = Proc::kNomsg;
    late.credits = 1;
    late.chunks.segments[0].length = oncrpc::kReplyHeaderBytes;
    hostile->Send(MessageOf(late));
    world->RunFor(1'000'000);
    EXPECT_EQ(client->counters().late_replies, i + 1u);
  }
  // With a credit lost this would never be sent.
  ASSERT_TRUE(StartGet().ok());
  TakeCall();
  ExpectGoodReplyEndsIt();
}

}  // namespace
}  // namespace pollux::rpcrdma
