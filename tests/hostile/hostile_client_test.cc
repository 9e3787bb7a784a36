// Clients that obey nobody, at a server that others use too.
#include <gmock/gmock.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <tuple>

#include "rpcrdma/connection/settings.h"
#include "rpcrdma/hostile_client_for_test.h"

namespace pollux::rpcrdma {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// RFC 8166 section 4.2.2 and section 4.5.1
TEST_F(HostileClientTest, AnotherVersionGetsErrVers) {
  StartHostile();
  Header header = HeaderOf();
  header.version = 2;
  const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kNull)));
  ASSERT_EQ(reply.size(), 28u);
  EXPECT_EQ(WordAt(reply, 0), kXid);
  EXPECT_EQ(WordAt(reply, 1), 2u);  // RFC 8166 section 4.5: as in the call
  EXPECT_EQ(WordAt(reply, 2), 8u);
  EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(Proc::kError));
  EXPECT_EQ(WordAt(reply, 4), static_cast<uint32_t>(ErrorCode::kVersion));
  EXPECT_EQ(WordAt(reply, 5), 1u);
  EXPECT_EQ(WordAt(reply, 6), 1u);
  EXPECT_EQ(counters().version_errors_sent, 1u);
  ExpectServed();
  ExpectTheOtherClientIsServed();
}

struct Malformed {
  const char* what;
  RawPeer::Message message;
};

RawPeer::Message Raw(std::initializer_list<uint32_t> lists, Proc proc = Proc::kMsg) {
  RawPeer::Message message = Words({kXid, 1, 8, static_cast<uint32_t>(proc)});
  const std::vector<uint8_t> rest = Words(lists);
  message.insert(message.end(), rest.begin(), rest.end());
  message.resize(std::max(message.size(), kMinHeaderBytes));
  return message;
}

RawPeer::Message WithReads(Proc proc, std::initializer_list<ReadSegment> reads,
                           const RawPeer::Message& payload = MirrorCall(kPut)) {
  Header header = HeaderOf(proc);
  for (const ReadSegment& read : reads) header.chunks.AddRead(read.position, read.target);
  return MessageOf(header, payload);
}

std::vector<Malformed> MalformedLists() {
  const uint32_t all_ones = 0xFFFFFFFF;
  RawPeer::Message endless = Raw({});
  endless.resize(kFixedBytes);
  for (int i = 0; i < 100; ++i) {
    const auto read = Words({1, 4, 1, 1, 0, 0});
    endless.insert(endless.end(), read.begin(), read.end());
  }
  RawPeer::Message chunks = Raw({});
  chunks.resize(kFixedBytes);
  for (int i = 0; i < 100; ++i) {
    const auto chunk = Words({i == 0 ? 0u : 1u, i == 0 ? 1u : 0u, 0});
    chunks.insert(chunks.end(), chunk.begin(), chunk.end());
  }
  return {
      {"marker neither 0 nor 1", Raw({2, 0, 0})},
      {"Read list cut short", Raw({1, 4, 1})},
      {"Read list without end", endless},
      {"Read position inside a word", Raw({1, 5, 1, 8, 0, 0, 0, 0, 0})},
      {"Read segment past the end of memory", Raw({1, 4, 1, 8, all_ones, all_ones, 0, 0, 0})},
      {"millions of Write segments", Raw({0, 1, 5'000'000, 1, 8, 0, 0})},
      {"as many Write segments as can be said", Raw({0, 1, all_ones, 1, 8, 0, 0})},
      {"many Write chunks", chunks},
      {"Write segment past the end of memory", Raw({0, 1, 1, 1, 8, all_ones, all_ones, 0, 0})},
      {"Write chunk cut short", Raw({0, 1, 2, 1, 8, 0, 0})},
      {"millions of Reply segments", Raw({0, 0, 1, 5'000'000, 1, 8, 0, 0})},
      {"Reply segment past the end of memory", Raw({0, 0, 1, 1, 1, all_ones, all_ones, all_ones})},
      {"no procedure of ours", Raw({0, 0, 0}, static_cast<Proc>(5))},
      // RFC 8166 section 4.6.1
      {"RDMA_MSGP", Raw({64, 1024, 0, 0, 0}, Proc::kMsgp)},
  };
}

std::vector<Malformed> ListsThatMakeNoCall() {
  const auto words = Words({1, 2, 3});
  const Segment segment = {.handle = 1, .length = 64, .offset = 0};
  const Segment huge = {.handle = 1, .length = 0xFFFFFFFF, .offset = 0};
  Header only_write = HeaderOf(Proc::kNomsg);
  only_write.chunks.AddWriteChunk({&segment, 1});
  RawPeer::Message other_xid = MirrorCall(kNull);
  other_xid[3] ^= 1;
  RawPeer::Message reply = ReplyOf(kXid);
  std::vector<Malformed> all = {
      // RFC 8166 section 4.2.4 and section 4.5.2
      {"RDMA_NOMSG without a chunk", Raw({0, 0, 0}, Proc::kNomsg)},
      {"RDMA_NOMSG without a position-zero chunk", MessageOf(only_write)},
      {"a long call of no bytes, and a call behind the header",
       WithReads(Proc::kNomsg, {{0, {.handle = 1}}}, MirrorCall(kNull))},
      {"RDMA_MSG with a position-zero chunk", WithReads(Proc::kMsg, {{0, segment}})},
      {"two items", WithReads(Proc::kMsg, {{44, segment}, {48, segment}}, MirrorCall(kPut, words))},
      // RFC 8166 section 8.1.4
      {"more bytes than a buffer holds", WithReads(Proc::kMsg, {{44, huge}})},
      {"more bytes than 32 bits count",
       WithReads(Proc::kMsg, {{44, huge}, {44, segment}, {44, segment}})},
      {"a long call of 4 GiB", WithReads(Proc::kNomsg, {{0, huge}}, {})},
      // RFC 8166 section 8.2.2: nothing of the RPC header is ever reduced.
      {"an item inside the RPC header",
       WithReads(Proc::kMsg, {{kCallBytes - 4, {.handle = 1}}}, MirrorCall(kPut, words))},
      {"two XIDs", MessageOf(HeaderOf(), other_xid)},
      {"an RPC reply", MessageOf(HeaderOf(), reply)},
      {"no RPC message", MessageOf(HeaderOf())},
      // RFC 8166 section 4.6.1
      {"RDMA_MSGP with a call", MessageOf(HeaderOf(Proc::kMsgp), MirrorCall(kNull))},
      {"an RPC header cut short",
       MessageOf(HeaderOf(), absl::MakeSpan(reply).first(oncrpc::kReplyHeaderBytes - 4))},
  };
  // RFC 8166 section 6.1
  all.push_back({"an item where the binding has none",
                 WithReads(Proc::kMsg, {{kCallBytes, {.handle = 1}}}, MirrorCall(kNull))});
  return all;
}

// RFC 8166 section 4.5.2
TEST_F(HostileClientTest, MalformedListsGetErrChunk) {
  StartHostile();
  uint64_t answered = 0;
  for (const std::vector<Malformed>& group : {MalformedLists(), ListsThatMakeNoCall()}) {
    for (const auto& [what, message] : group) {
      SCOPED_TRACE(what);
      const RawPeer::Message reply = Ask(message);
      ASSERT_EQ(reply.size(), 20u);
      EXPECT_EQ(WordAt(reply, 0), kXid);
      EXPECT_EQ(WordAt(reply, 1), 1u);
      EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(Proc::kError));
      EXPECT_EQ(WordAt(reply, 4), static_cast<uint32_t>(ErrorCode::kChunk));
      EXPECT_EQ(counters().chunk_errors_sent, ++answered);
    }
  }
  EXPECT_EQ(counters().replies_sent, 0u);
  EXPECT_EQ(counters().bytes_read, 0u);
  ExpectServed();
  ExpectTheOtherClientIsServed();
}

// More of them than there are receives: each is given back.
TEST_F(HostileClientTest, DiscardedMessagesAreCounted) {
  StartHostile();
  const int kTimes = 100;
  for (int i = 0; i < kTimes; ++i) {
    hostile->Send(std::vector<uint8_t>(i % kMinHeaderBytes, 0xFF));
    hostile->Send(Raw({}, Proc::kDone));
    RawPeer::Message error = Raw({1, 1, 1}, Proc::kError);
    hostile->Send(error);
    world->RunFor(100'000);
  }
  ASSERT_TRUE(RunUntil([this] { return hostile->sent.size() == 3u * kTimes; }));
  world->RunFor(sim::Simulation::kSecond);
  EXPECT_EQ(counters().short_messages, 100u);     // RFC 8166 section 4.5
  EXPECT_EQ(counters().obsolete_messages, 100u);  // RFC 8166 section 4.6.2
  EXPECT_EQ(counters().unwanted_errors, 100u);    // RFC 8166 section 4.2.4
  EXPECT_TRUE(hostile->received.empty());
  ExpectServed();
  ExpectTheOtherClientIsServed();
}

// However many there are, and in words that say who.
TEST_F(HostileClientTest, RefusalsAreLoggedOncePerConnectionAndKind) {
  StartHostile();
  std::vector<std::string> lines;
  server->server->SetRefusalLog([&lines](const std::string& line) { lines.push_back(line); });
  const RawPeer::Message short_message(8, 0xFF);
  const auto send = [&](int times, const RawPeer::Message& message) {
    for (int i = 0; i < times; ++i) {
      hostile->Send(message);
      world->RunFor(100'000);
    }
    world->RunFor(2 * Refusals::kDelayNs);
  };
  send(50, short_message);
  ASSERT_EQ(lines.size(), 1u);
  std::string peer = ToString({nodes[0]->gid(), 0});
  peer.pop_back();
  EXPECT_THAT(lines[0], StartsWith(peer));
  EXPECT_THAT(lines[0], HasSubstr("immediate data, discarded; 50 so far"));
  send(50, short_message);
  EXPECT_EQ(lines.size(), 1u);
  Header version = HeaderOf();
  version.version = 2;
  send(1, MessageOf(version, MirrorCall(kNull)));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[1], EndsWith("another version of RPC-over-RDMA, answered ERR_VERS"));
  // Of one that goes at once it is told when it is gone.
  hostile = NewPeer();
  hostile->Send(short_message);
  ASSERT_TRUE(RunUntil([this] { return counters().short_messages == 101; }));
  hostile->Disconnect();
  ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[2], HasSubstr("shorter than any header"));
  EXPECT_EQ(counters().short_messages, 101u);
  // By more connections than are told of in a minute.
  for (uint32_t i = 0; i < 2 * RefusalLog::kLinesOfAddress; ++i) {
    hostile = NewPeer();
    hostile->Send(short_message);
    ASSERT_TRUE(RunUntil([&] { return counters().short_messages == 102 + i; }));
  }
  hostile.reset();
  ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
  EXPECT_EQ(lines.size(), RefusalLog::kLinesOfAddress);
  ExpectTheOtherClientIsServed();
}

// Where there is no room for another connection it is refused, counted and told of.
TEST_F(HostileClientTest, ConnectionsAboveTheLimitAreRefused) {
  StartSimulation();
  StartServer({.max_connections = 1});
  StartClient();
  ConnectClient();
  std::vector<std::string> lines;
  server->server->SetRefusalLog([&lines](const std::string& line) { lines.push_back(line); });
  hostile = std::make_unique<RawPeer>(&nodes[0]->worker(), managers[0].get());
  hostile->Connect({nodes[1]->gid(), kTestPort});
  ASSERT_TRUE(RunUntil([this] { return counters().connections_refused == 1; }));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], EndsWith("connection refused: the limit of 1 connections is reached"));
  EXPECT_FALSE(hostile->connected());
  ExpectTheOtherClientIsServed();
}

// One that is asked for and not gone through with is none.
TEST_F(HostileClientTest, HalfOpenConnectionsDoNotCountTowardsTheLimit) {
  StartSimulation();
  StartServer({.max_connections = 1});
  bool answered = false;
  cm::Id* id = *managers[0]->CreateId(RDMA_PS_TCP, [&](const cm::Event& event) {
    if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
      EXPECT_TRUE(managers[0]->ResolveRoute(event.id, 1000).ok());
    } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      // A queue pair that CM does not know: the RTU is this test's to send, and it does not.
      EXPECT_TRUE(managers[0]->Connect(event.id, {.qp_num = 0x1234}).ok());
    }
    answered |= event.type == RDMA_CM_EVENT_CONNECT_RESPONSE;
  });
  ASSERT_TRUE(managers[0]->ResolveAddr(id, {nodes[1]->gid(), kTestPort}, 1000).ok());
  ASSERT_TRUE(RunUntil([&] { return answered; }));
  EXPECT_EQ(server->server->connections(), 1u);
  StartClient();
  ConnectClient();
  ExpectTheOtherClientIsServed();
  managers[0]->DestroyId(id);
}

TEST_F(HostileClientTest, OneAddressCannotTakeAllConnections) {
  StartSimulation();
  StartServer({.max_connections = 4});
  std::vector<std::string> lines;
  server->server->SetRefusalLog([&lines](const std::string& line) { lines.push_back(line); });
  const std::unique_ptr<RawPeer> first = NewPeer(), second = NewPeer();
  RawPeer third(&nodes[0]->worker(), managers[0].get());
  third.Connect({nodes[1]->gid(), kTestPort});
  ASSERT_TRUE(RunUntil([this] { return counters().connections_refused == 1; }));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0],
              EndsWith("its address has 2 of 4 connections, the most that one address may have"));
  EXPECT_FALSE(third.connected());
  // Another address has its share.
  sim::Node& other = world->AddNode();
  const std::unique_ptr<cm::Manager> manager = *cm::Manager::Create(&other.worker());
  {
    RawPeer neighbour(&other.worker(), manager.get());
    neighbour.Connect({nodes[1]->gid(), kTestPort});
    EXPECT_TRUE(RunUntil([&] { return neighbour.connected(); }));
  }
}

TEST_F(HostileClientTest, MaxConnectionsPerClientLimitsOneAddress) {
  StartSimulation();
  StartServer({.max_connections = 4, .max_connections_per_client = 1});
  const std::unique_ptr<RawPeer> first = NewPeer();
  RawPeer second(&nodes[0]->worker(), managers[0].get());
  second.Connect({nodes[1]->gid(), kTestPort});
  EXPECT_TRUE(RunUntil([this] { return counters().connections_refused == 1; }));
}

// They keep their memory.
TEST_F(HostileClientTest, EndedConnectionsWithHeldCallsCountTowardsTheLimit) {
  constexpr uint32_t kLimit = 4;
  StartSimulation();
  StartServer({.max_connections = kLimit});
  std::vector<std::string> lines;
  server->server->SetRefusalLog([&lines](const std::string& line) { lines.push_back(line); });
  for (int i = 0; i < 50; ++i) {
    RawPeer peer(&nodes[0]->worker(), managers[0].get());
    peer.Connect({nodes[1]->gid(), kTestPort});
    ASSERT_TRUE(RunUntil([&] { return peer.connected() || peer.ended(); }));
    if (!peer.connected()) continue;
    const size_t held = server->held.size();
    peer.Send(MessageOf(HeaderOf(), MirrorCall(kHold)));
    ASSERT_TRUE(RunUntil([&] { return server->held.size() > held; }));
    peer.Disconnect();
    ASSERT_TRUE(RunUntil([&] { return peer.ended(); }));
  }
  EXPECT_LE(server->server->connections(), kLimit);
  EXPECT_GT(counters().connections_refused, 0u);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines[0], EndsWith("calls of 3 ended connections of its address are still executed"));
  server->AnswerHeld();
  ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 0; }));
  hostile = NewPeer();
  ExpectServed();
}

// Two that were let in while there was one place: it is the first's to be established.
TEST_F(HostileClientTest, TheLimitIsCheckedAgainWhenAConnectionIsEstablished) {
  StartSimulation();
  StartServer({.max_connections = 2, .max_connections_per_client = 1});
  std::vector<std::string> lines;
  server->server->SetRefusalLog([&lines](const std::string& line) { lines.push_back(line); });
  RawPeer first(&nodes[0]->worker(), managers[0].get());
  RawPeer second(&nodes[0]->worker(), managers[0].get());
  for (RawPeer* peer : {&first, &second}) peer->Connect({nodes[1]->gid(), kTestPort});
  ASSERT_TRUE(RunUntil([&] { return first.ended() || second.ended(); }));
  EXPECT_TRUE(first.connected() && second.connected()) << "both were accepted";
  EXPECT_NE(first.ended(), second.ended());
  EXPECT_EQ(counters().connections_refused, 1u);
  EXPECT_EQ(counters().connections_established, 1u);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0],
              EndsWith("its address has 1 of 2 connections, the most that one address may have"));
  EXPECT_EQ(server->server->connections(), 1u);
}

// RFC 8797 section 5.2: what is found anywhere counts, what only resembles it does not, and
// RFC 8797 section 5.1 then says how large a reply may be.
TEST_F(HostileClientTest, PrivateDataIsFoundAtAnyOffset) {
  StartHostile();
  static constexpr size_t kMax = 56;  // of a REQ, behind the CMA header
  const std::vector<uint8_t> good = {0xF6, 0xAB, 0x0E, 0x18, 1, 0, 7, 7};
  const auto behind = [](std::vector<uint8_t> first, const std::vector<uint8_t>& data) {
    first.insert(first.end(), data.begin(), data.end());
    first.resize(std::min(first.size(), kMax));
    return first;
  };
  std::vector<uint8_t> reversed = good, version = good;
  std::reverse(reversed.begin(), reversed.begin() + 4);
  version[4] = 2;
  const std::tuple<const char*, std::vector<uint8_t>, bool> cases[] = {
      {"in front", good, true},
      {"at the end", behind(std::vector<uint8_t>(kMax - good.size(), 0xF6), good), true},
      {"at no multiple of four", behind({0xF6, 0xAB, 0x0E}, good), true},
      {"behind what has another version", behind(version, good), true},
      {"none", {}, false},
      {"a byte past the end", behind(std::vector<uint8_t>(kMax - good.size() + 1), good), false},
      {"of another byte order", reversed, false},
      {"of another version", version, false},
      {"all ones", std::vector<uint8_t>(kMax, 0xFF), false},
  };
  for (const auto& [what, data, is_found] : cases) {
    SCOPED_TRACE(what);
    hostile = NewPeer(data);
    const RawPeer::Message reply = Ask(MessageOf(HeaderOf(), MirrorCall(kGet, Words({2000}))));
    ASSERT_GE(reply.size(), 16u);
    EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(is_found ? Proc::kMsg : Proc::kError));
    ExpectServed();
  }
  ExpectTheOtherClientIsServed();
}

// RFC 8166 section 4.5.3: lists that no reply can bring back are seen before the procedure runs.
TEST_F(HostileClientTest, ChunkListsLargerThanAReplyAreRefused) {
  StartHostile();
  // Without private data replies have 1,024 bytes.
  hostile = NewPeer(std::vector<uint8_t>());
  constexpr size_t kOthers = kMinHeaderBytes + 8 + oncrpc::kReplyHeaderBytes;
  constexpr size_t kFits = (kMinInlineBytes - kOthers) / kSegmentBytes;
  for (const size_t count : {kFits, kFits + 1}) {
    const std::vector<Segment> segments(count, hostile->SegmentAt(0, 0));
    Header header = HeaderOf();
    header.chunks.AddWriteChunk(segments);
    const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kCount, Words({0}))));
    ASSERT_GE(reply.size(), 16u);
    EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(count == kFits ? Proc::kMsg : Proc::kError));
  }
  EXPECT_EQ(server->runs, 1u);
  EXPECT_EQ(counters().replies_too_large, 1u);
  ExpectServed();
}

// RFC 8166 section 4.5.3: sent again it would cost one connection after the other.
TEST_F(HostileClientTest, ACallThatBrokeItsConnectionIsRefusedNextTime) {
  StartHostile();
  Header header = HeaderOf();
  header.chunks.AddWriteChunk({&kForeign, 1});
  const RawPeer::Message call = MessageOf(header, MirrorCall(kGet, Words({4096})));
  for (uint64_t round = 1; round <= 2; ++round) {
    hostile->Send(call);
    ASSERT_TRUE(RunUntil([this] { return hostile->ended(); }));
    ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
    hostile = NewPeer();
    // Other calls of its XID are not.
    ExpectServed();
    EXPECT_EQ(WordAt(Ask(MessageOf(HeaderOf(), MirrorCall(kGet, Words({100})))), 3),
              static_cast<uint32_t>(Proc::kMsg));
    const RawPeer::Message reply = Ask(call);
    ASSERT_EQ(reply.size(), 20u);
    EXPECT_EQ(WordAt(reply, 0), kXid);
    EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(Proc::kError));
    EXPECT_EQ(WordAt(reply, 4), static_cast<uint32_t>(ErrorCode::kChunk));
    EXPECT_EQ(counters().duplicates_refused, round);
    ExpectServed();
  }
  ExpectTheOtherClientIsServed();
}

// RFC 8166 section 8.2.2.3: under RPCSEC_GSS integrity nothing is taken out of the stream, neither
// by the client nor for it.
TEST_F(HostileClientTest, NothingIsReducedUnderIntegrity) {
  StartHostile();
  const std::vector<uint8_t> gss = Words({1, 0, 9, 2, 0});
  const auto call = [&](uint32_t procedure, absl::Span<const uint8_t> arguments) {
    return CallOf({.xid = kXid,
                   .program = kMirrorProgram,
                   .version = 1,
                   .procedure = procedure,
                   .credential = {oncrpc::AuthFlavor::kGss, gss}},
                  arguments);
  };
  const Segment segment = hostile->SegmentAt(0, 64);
  Header read = HeaderOf(), write = HeaderOf();
  read.chunks.AddRead(static_cast<uint32_t>(kCallBytes + gss.size() + 8), segment);
  EXPECT_EQ(Ask(MessageOf(read, call(kPut, Words({1, 64, 2})))).size(), 20u);
  EXPECT_EQ(counters().eligibility_violations, 1u);
  write.chunks.AddWriteChunk({&segment, 1});
  const RawPeer::Message reply = Ask(MessageOf(write, call(kGet, Words({40}))));
  Header answer;
  size_t bytes = 0;
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  ASSERT_EQ(answer.chunks.write_chunk_count, 1);
  EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.write_chunks[0]), 0u);
  EXPECT_EQ(reply.size(), bytes + oncrpc::kReplyHeaderBytes + 12 + 40);
}

// RFC 5042 section 6.4.3.2 and section 6.4.6: whoever sends too much harms himself.
TEST_F(HostileClientTest, CallsBeyondTheCreditsWaitInTheClient) {
  StartHostile();
  const RawPeer::Message hold = MessageOf(HeaderOf(), MirrorCall(kHold));
  const size_t kCalls = 300;
  for (size_t i = 0; i < kCalls; ++i) hostile->Send(hold);
  world->RunFor(sim::Simulation::kSecond);
  // No more than there are receives for: the others wait in the client's own queue.
  constexpr size_t kReceives = 32 + 4 + kSpareReceives;  // by the defaults of ServerConfig
  EXPECT_LE(server->held.size(), kReceives);
  EXPECT_GE(server->held.size(), 32u);
  EXPECT_FALSE(hostile->ended());
  ExpectTheOtherClientIsServed();
  size_t rounds = 0;
  ASSERT_TRUE(RunUntil([&] {
    if (world->random().Chance(0.1)) {
      server->AnswerHeld();
      ++rounds;
    }
    return hostile->received.size() == kCalls;
  }));
  EXPECT_GE(rounds, kCalls / kReceives);
  ExpectServed();
  EXPECT_EQ(counters().replies_sent, kCalls + 4);
}

// The same call by connection after connection: the reply is for the last.
TEST_F(HostileClientTest, TheLastConnectionThatRepeatsACallIsAnswered) {
  StartHostile();
  const RawPeer::Message call = MessageOf(HeaderOf(), MirrorCall(kCount, Words({1})));
  hostile->Send(call);
  ASSERT_TRUE(RunUntil([this] { return server->runs == 1; }));
  const std::unique_ptr<RawPeer> second = NewPeer(), third = NewPeer();
  second->Send(call);
  ASSERT_TRUE(RunUntil([this] { return counters().duplicates_joined == 1; }));
  third->Send(call);
  ASSERT_TRUE(RunUntil([this] { return counters().duplicates_joined == 2; }));
  EXPECT_EQ(counters().duplicates_dropped, 1u);
  server->AnswerCounts();
  ASSERT_TRUE(
      RunUntil([&] { return hostile->received.size() == 1 && third->received.size() == 1; }));
  EXPECT_EQ(server->runs, 1u);
  EXPECT_TRUE(second->received.empty());
  // It is none the worse for it.
  second->Send(MessageOf(HeaderOf(), MirrorCall(kNull)));
  ASSERT_TRUE(RunUntil([&] { return second->received.size() == 1; }));
}

// RFC 8166 section 3.3.1: a credit is never 0, and never more than there are receives for.
TEST_F(HostileClientTest, CreditRequestsAreClamped) {
  StartHostile();
  for (auto [asked, granted] : {std::pair{0u, 1u}, {1u, 1u}, {0xFFFFFFFFu, 32u}}) {
    Header header = HeaderOf();
    header.credits = asked;
    const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kNull)));
    ASSERT_GE(reply.size(), kMinHeaderBytes);
    EXPECT_EQ(WordAt(reply, 2), granted);
  }
}

// A client that takes no replies keeps what its calls hold, the server's buffers too, but not for
// ever.
TEST_F(HostileClientTest, AClientThatTakesNoRepliesLosesItsConnection) {
  StartSimulation();
  StartServer({.bulk_buffers = 8});
  StartClient();
  ConnectClient();
  hostile = std::make_unique<RawPeer>(&nodes[0]->worker(), managers[0].get());
  hostile->repost = false;
  hostile->min_rnr_timer = 31;  // 0.49 s
  hostile->Connect({nodes[1]->gid(), kTestPort});
  ASSERT_TRUE(RunUntil([this] { return hostile->connected(); }));
  const Segment room = hostile->SegmentAt(0, 8192);
  Header header = HeaderOf();
  header.chunks.SetReply({&room, 1});
  const RawPeer::Message call = MessageOf(header, MirrorCall(kNull));
  for (uint32_t i = 0; i < RawPeer::kReceives + 8; ++i) {
    hostile->Send(call);
    world->RunFor(1'000'000);
  }
  ASSERT_EQ(hostile->received.size(), RawPeer::kReceives);
  const uint64_t start_ns = world->now_ns();
  EXPECT_TRUE(Put(50'000).ok());
  EXPECT_GT(world->now_ns(), start_ns + Responder::kWantedStallNs / 2) << "nothing was held";
  EXPECT_EQ(counters().connections_stalled, 1u);
  EXPECT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
  ExpectTheOtherClientIsServed();
}

// Clients at addresses of their own, each of which takes no replies and as many buffers as it gets.
class Hoarders {
 public:
  Hoarders(sim::Simulation* world, const SocketAddress& server, size_t count)
      : world_(world), server_(server) {
    for (size_t i = 0; i < count; ++i) {
      sim::Node& node = world->AddNode();
      hosts_.push_back({&node, *cm::Manager::Create(&node.worker()), nullptr});
    }
  }
  bool Connect() {
    for (Host& host : hosts_) {
      host.peer = std::make_unique<RawPeer>(&host.node->worker(), host.manager.get());
      host.peer->repost = false;
      host.peer->min_rnr_timer = 31;  // 0.49 s
      host.peer->Connect(server_);
      if (!world_->RunUntil([&] { return host.peer->connected(); },
                            world_->now_ns() + 10 * sim::Simulation::kSecond)) {
        return false;
      }
    }
    return true;
  }
  void Hoard() {
    for (Host& host : hosts_) {
      const Segment room = host.peer->SegmentAt(0, 8192);
      Header header = HeaderOf();
      header.chunks.SetReply({&room, 1});
      for (uint32_t i = 0; i < RawPeer::kReceives + 16; ++i) {
        host.peer->Send(WithXid(MessageOf(header, MirrorCall(kNull)), i + 1));
        world_->RunFor(1'000'000);
      }
    }
  }
  void Leave() {
    for (Host& host : hosts_) host.peer.reset();
  }

 private:
  struct Host {
    sim::Node* node;
    std::unique_ptr<cm::Manager> manager;
    std::unique_ptr<RawPeer> peer;
  };
  sim::Simulation* world_;
  SocketAddress server_;
  std::vector<Host> hosts_;
};

// Who waits for a buffer need not wait for what they keep, and the second time they get little.
TEST_F(HostileClientTest, SixAddressesThatHoldBuffersDoNotStarveOthers) {
  StartSimulation();
  StartServer({.bulk_buffers = 16});
  StartClient();
  ConnectClient();
  Hoarders hoarders(world.get(), {nodes[1]->gid(), kTestPort}, 6);
  ASSERT_TRUE(hoarders.Connect());
  hoarders.Hoard();
  uint64_t start_ns = world->now_ns();
  EXPECT_TRUE(Put(50'000).ok());
  EXPECT_GT(world->now_ns(), start_ns + sim::Simulation::kSecond) << "nothing was held";
  EXPECT_LT(world->now_ns(), start_ns + 2 * Responder::kWantedStallNs);
  EXPECT_GE(counters().connections_stalled, 1u);
  // Those that get what the first had to give back keep it as well.
  world->RunFor(3 * Responder::kWantedStallNs);
  hoarders.Leave();
  ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));

  ASSERT_TRUE(hoarders.Connect());
  hoarders.Hoard();
  const uint64_t stalled = counters().connections_stalled;
  start_ns = world->now_ns();
  EXPECT_TRUE(Put(50'000).ok());
  EXPECT_LT(world->now_ns(), start_ns + sim::Simulation::kSecond);
  EXPECT_EQ(counters().connections_stalled, stalled);
  hoarders.Leave();
  ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
  ExpectTheOtherClientIsServed();
}

}  // namespace
}  // namespace pollux::rpcrdma
