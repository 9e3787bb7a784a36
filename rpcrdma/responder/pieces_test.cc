// Results that go out in pieces, ahead of their replies.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "rpcrdma/hostile_client_for_test.h"

namespace pollux::rpcrdma {
namespace {

class PiecesTest : public HostileClientTest {
 protected:
  static constexpr uint8_t kGuard = 0xEE;
  static constexpr size_t kGuardBytes = 64;

  // One call of kGradual, which the server holds when this returns. `room`: of its Write chunk; 0:
  // it offers none.
  void Begin(size_t room) {
    buffer_.assign(room + kGuardBytes, kGuard);
    reply_buffer_.resize(oncrpc::kReplyHeaderBytes + 4 + kMaxItem);
    item_buffer_ = absl::MakeSpan(buffer_).first(room);
    status_.reset();
    received_.clear();
    const size_t before = server->gradual.size();
    ASSERT_TRUE(client
                    ->Call({.procedure = kGradual,
                            .item_buffers = {&item_buffer_, room > 0 ? 1u : 0u},
                            .reply_buffer = absl::MakeSpan(reply_buffer_)},
                           [this](absl::Status status, const oncrpc::Reply* reply) {
                             EXPECT_FALSE(status_.has_value());
                             status_ = status;
                             if (!status.ok()) return;
                             oncrpc::XdrReader in = reply->reader();
                             const auto item = in.EligibleOpaque(kMaxItem);
                             EXPECT_TRUE(in.AtEnd());
                             received_.assign(item.begin(), item.end());
                           })
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return server->gradual.size() > before; }));
  }
  ReplyHandle& reply() { return server->gradual.back(); }
  // The next of the result, when it may be.
  void Write(size_t from, size_t bytes) {
    ASSERT_TRUE(RunUntil([this] { return reply().CanWrite(); }));
    WriteNow(from, bytes);
  }
  void WriteNow(size_t from, size_t bytes) {
    ++given_;
    reply().Write({.bytes = absl::MakeConstSpan(pattern_).subspan(from, bytes),
                   .release = [this] { ++released_; }});
  }
  // What is left of a result of so many bytes.
  void Send(size_t from, size_t bytes) {
    ++given_;
    uint8_t space[4];
    oncrpc::XdrWriter out(absl::MakeSpan(space));
    const size_t position = out.EligibleOpaque(bytes);
    reply().Send(out.bytes(), {.bytes = absl::MakeConstSpan(pattern_).subspan(from, bytes - from),
                               .position = position,
                               .release = [this] { ++released_; }});
  }
  absl::Status Await() {
    EXPECT_TRUE(RunUntil([this] { return status_.has_value(); }));
    server->gradual.clear();
    EXPECT_TRUE(std::all_of(buffer_.end() - kGuardBytes, buffer_.end(),
                            [](uint8_t byte) { return byte == kGuard; }));
    return status_.value_or(absl::UnknownError("never called"));
  }
  void ExpectReceived(size_t bytes) {
    const absl::Status status = Await();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(absl::MakeConstSpan(received_), absl::MakeConstSpan(pattern_).first(bytes));
  }
  // Once each.
  void ExpectAllReleased() {
    EXPECT_TRUE(RunUntil([this] { return released_ == given_; }));
    world->RunFor(sim::Simulation::kSecond);
    EXPECT_EQ(released_, given_);
  }

  std::vector<uint8_t> pattern_ = Pattern(kMaxItem);
  std::vector<uint8_t> buffer_, reply_buffer_, received_;
  absl::Span<uint8_t> item_buffer_;
  std::optional<absl::Status> status_;
  int given_ = 0;
  int released_ = 0;
};

// With a rest that the reply brings, or none.
TEST_F(PiecesTest, PiecesOfEverySizeArrive) {
  StartAll();
  for (const size_t bytes : {5001u, 100'001u, kMaxItem}) {
    for (const size_t piece : {17u, 4096u, 65'536u, 1'000'000u}) {
      if (piece > bytes || bytes / piece > 300) continue;
      for (const bool whole : {true, false}) {
        Begin(bytes);
        EXPECT_EQ(reply().PieceRoom(), bytes);
        const size_t ahead = whole ? bytes : bytes / piece / 2 * piece;
        for (size_t at = 0; at < ahead; at += piece) Write(at, std::min(piece, ahead - at));
        Send(ahead, bytes);
        ExpectReceived(bytes);
      }
    }
  }
  ExpectAllReleased();
  EXPECT_EQ(counters().bytes_copied, 0u);
}

// Long before the reply.
TEST_F(PiecesTest, PiecesArriveBeforeTheResultIsComplete) {
  StartAll();
  Begin(kMaxItem);
  Write(0, 50'000);
  EXPECT_TRUE(RunUntil([this] { return released_ == 1; }));
  EXPECT_TRUE(std::equal(buffer_.begin(), buffer_.begin() + 50'000, pattern_.begin()));
  EXPECT_EQ(buffer_[50'000], kGuard);
  EXPECT_FALSE(status_.has_value());
  EXPECT_EQ(counters().bytes_written, 50'000u);
  Send(50'000, 60'000);
  ExpectReceived(60'000);
  EXPECT_EQ(counters().bytes_written, 60'000u);
  ExpectAllReleased();
}

// Then all of it comes with the reply.
TEST_F(PiecesTest, NoPieceIsWrittenWithoutARegion) {
  StartAll();
  Begin(kMaxItem);
  {
    const AllRegions taken(&nodes[1]->worker());
    EXPECT_FALSE(reply().CanWrite());
  }
  EXPECT_TRUE(reply().CanWrite());
  Send(0, 60'000);
  ExpectReceived(60'000);
}

// Others are answered meanwhile.
TEST_F(PiecesTest, OtherCallsAreAnsweredBetweenPieces) {
  StartAll();
  ASSERT_TRUE(Run({.procedure = kNull}).ok());  // grants more than one credit
  Begin(kMaxItem);
  for (size_t at = 0; at < 300'000; at += 30'000) {
    Write(at, 30'000);
    const std::vector<uint8_t> arguments = Pattern(400);
    std::optional<absl::Status> status;
    ASSERT_TRUE(client
                    ->Call({.procedure = kEcho, .arguments = arguments, .max_result_bytes = 400},
                           [&](absl::Status s, const oncrpc::Reply* reply) {
                             status = s;
                             ASSERT_TRUE(s.ok()) << s;
                             EXPECT_EQ(reply->results, absl::MakeConstSpan(arguments));
                           })
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  }
  Send(300'000, 300'001);
  ExpectReceived(300'001);
}

// RFC 8166 section 4.3.2.2: the chunk comes back unused, whatever was written to it.
TEST_F(PiecesTest, AReplyWithoutTheResultReturnsTheChunkUnused) {
  StartHostile();
  const Segment chunk = hostile->SegmentAt(0, 10'000);
  Header header = HeaderOf();
  header.chunks.AddWriteChunk({&chunk, 1});
  for (const bool fails : {false, true}) {
    hostile->received.clear();
    std::fill_n(hostile->memory(), 10'000, kGuard);
    hostile->Send(MessageOf(header, MirrorCall(kGradual)));
    ASSERT_TRUE(RunUntil([this] { return !server->gradual.empty(); }));
    Write(0, 3000);
    // The reply overtakes nothing.
    if (fails) {
      reply().Fail(oncrpc::AcceptStatus::kSystemError);
    } else {
      reply().Send(Words({0}));
    }
    server->gradual.clear();
    ASSERT_TRUE(RunUntil([this] { return !hostile->received.empty(); }));
    Header answer;
    size_t bytes = 0;
    ASSERT_EQ(ParseHeader(hostile->received[0], &answer, &bytes), HeaderStatus::kOk);
    EXPECT_EQ(answer.proc, Proc::kMsg);
    ASSERT_EQ(answer.chunks.write_chunk_count, 1u);
    ASSERT_EQ(answer.chunks.SegmentsOf(answer.chunks.write_chunks[0]).size(), 1u);
    EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.write_chunks[0]), 0u);
    EXPECT_TRUE(std::equal(pattern_.begin(), pattern_.begin() + 3000, hostile->memory()));
    EXPECT_EQ(hostile->memory()[3000], kGuard);
  }
  ExpectAllReleased();
  ExpectTheOtherClientIsServed();
}

TEST_F(PiecesTest, AForgottenReplyFailsTheCall) {
  StartAll();
  Begin(kMaxItem);
  Write(0, 70'000);
  server->gradual.clear();
  EXPECT_EQ(Await().code(), absl::StatusCode::kInternal);
  ExpectAllReleased();
  EXPECT_TRUE(Get(10'000, 10'000).ok());
}

// RFC 8166 section 3.4.6: in the order of the segments, each filled before the next.
TEST_F(PiecesTest, PiecesFillSegmentsInOrder) {
  StartHostile();
  constexpr uint32_t kLengths[] = {1, 0, 2999, 7, 5000};
  constexpr size_t kApart = 10'000;
  constexpr size_t kBytes = 4000;
  std::vector<Segment> segments;
  for (const uint32_t length : kLengths) {
    segments.push_back(hostile->SegmentAt(kApart * segments.size(), length));
  }
  Header header = HeaderOf();
  header.chunks.AddWriteChunk(segments);
  for (const size_t piece : {1u, 500u, 2999u, 3000u, 3001u, 4000u}) {
    std::fill_n(hostile->memory(), RawPeer::kMemoryBytes, kGuard);
    hostile->received.clear();
    hostile->Send(MessageOf(header, MirrorCall(kGradual)));
    ASSERT_TRUE(RunUntil([this] { return !server->gradual.empty(); }));
    EXPECT_EQ(reply().PieceRoom(), 8007u);
    const size_t ahead = std::min<size_t>(kBytes, piece == 1 ? 20 : kBytes / piece * piece);
    for (size_t at = 0; at < ahead; at += piece) Write(at, std::min(piece, ahead - at));
    Send(ahead, kBytes);
    server->gradual.clear();
    ASSERT_TRUE(RunUntil([this] { return !hostile->received.empty(); }));
    Header answer;
    size_t bytes = 0;
    ASSERT_EQ(ParseHeader(hostile->received[0], &answer, &bytes), HeaderStatus::kOk);
    const auto returned = answer.chunks.SegmentsOf(answer.chunks.write_chunks[0]);
    ASSERT_EQ(returned.size(), std::size(kLengths));
    size_t from = 0;
    for (size_t i = 0; i < returned.size(); ++i) {
      const size_t filled = std::min<size_t>(kLengths[i], kBytes - from);
      EXPECT_EQ(returned[i].length, filled);
      const uint8_t* const memory = hostile->memory() + kApart * i;
      EXPECT_TRUE(std::equal(memory, memory + filled, pattern_.data() + from)) << piece << " " << i;
      EXPECT_EQ(memory[filled], kGuard);
      from += filled;
    }
    EXPECT_EQ(from, kBytes);
  }
  ExpectAllReleased();
}

// RFC 8166 section 4.5.3: what does not fit is not written, in a piece or in what is left.
TEST_F(PiecesTest, PiecesBeyondTheChunkAreNotWritten) {
  StartAll();
  Begin(9000);
  Write(0, 5000);
  Write(5000, 4001);
  Write(5000, 10);
  Send(9001, 9001);
  EXPECT_EQ(Await().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(counters().bytes_written, 5000u);
  Begin(9000);
  Write(0, 9000);
  Send(9000, 9001);
  EXPECT_EQ(Await().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(counters().replies_too_large, 2u);
  // At the limit, and an error is one after all.
  Begin(9000);
  Write(0, 9000);
  Send(9000, 9000);
  ExpectReceived(9000);
  Begin(9000);
  Write(0, 9001);
  reply().Fail(oncrpc::AcceptStatus::kSystemError);
  EXPECT_EQ(Await().code(), absl::StatusCode::kInternal);
  ExpectAllReleased();
}

TEST_F(PiecesTest, WithoutAWriteChunkOrIfCachedTheResultIsSentWhole) {
  StartAll();
  // It comes in the Reply chunk.
  Begin(0);
  EXPECT_EQ(reply().PieceRoom(), 0u);
  Send(0, 20'000);
  ExpectReceived(20'000);
  // Nothing of it may go out: in the stream it would lack what went ahead.
  Begin(0);
  Write(0, 1000);
  Send(1000, 2000);
  EXPECT_EQ(Await().code(), absl::StatusCode::kFailedPrecondition);
  ExpectAllReleased();
  // One that is remembered.
  server->hold_notes = true;
  std::vector<uint8_t> room(5000);
  const absl::Span<uint8_t> buffer = absl::MakeSpan(room);
  const std::vector<uint8_t> arguments = Words({5000, 0});
  std::optional<absl::Status> status;
  ASSERT_TRUE(client
                  ->Call({.procedure = kNote, .arguments = arguments, .item_buffers = {&buffer, 1}},
                         [&](absl::Status s, const oncrpc::Reply*) { status = s; })
                  .ok());
  ASSERT_TRUE(RunUntil([this] { return !server->held_counts.empty(); }));
  EXPECT_EQ(server->held_counts[0].PieceRoom(), 0u);
  server->AnswerNote();
  ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
  EXPECT_TRUE(status->ok()) << *status;
}

// So many pieces at once and no more, of all calls of a connection, until the client has taken
// some; another client's are its own.
TEST_F(PiecesTest, PiecesInFlightPerConnectionAreBounded) {
  StartHostile();
  constexpr uint32_t kPiece = 1000;
  const Segment chunk = hostile->SegmentAt(0, 20 * kPiece);
  Header header = HeaderOf();
  header.chunks.AddWriteChunk({&chunk, 1});
  for (uint32_t xid : {1u, 2u}) {
    hostile->Send(WithXid(MessageOf(header, MirrorCall(kGradual)), xid));
  }
  ASSERT_TRUE(RunUntil([this] { return server->gradual.size() == 2; }));
  for (uint32_t i = 0; i < Responder::kMaxPieces; ++i) {
    ASSERT_TRUE(server->gradual[0].CanWrite()) << i;
    ASSERT_TRUE(reply().CanWrite());
    WriteNow(i * kPiece, kPiece);
  }
  EXPECT_FALSE(server->gradual[0].CanWrite());
  EXPECT_FALSE(reply().CanWrite());
  std::vector<ReplyHandle> of_hostile = std::exchange(server->gradual, {});
  Begin(5000);
  Write(0, 5000);
  Send(5000, 5000);
  ExpectReceived(5000);
  EXPECT_TRUE(RunUntil([&] { return of_hostile[0].CanWrite(); }));
  ExpectAllReleased();
}

// Whoever writes without having asked loses the result, and nobody else anything.
TEST_F(PiecesTest, OnePieceTooManyLosesTheResult) {
  StartAll();
  Begin(kMaxItem);
  for (size_t i = 0; i < Responder::kMaxPieces; ++i) WriteNow(i * 1000, 1000);
  EXPECT_FALSE(reply().CanWrite());
  WriteNow(Responder::kMaxPieces * 1000, 1000);
  EXPECT_EQ(released_, 1);
  EXPECT_EQ(counters().bytes_written, Responder::kMaxPieces * 1000u);
  Send((Responder::kMaxPieces + 1) * 1000, 20'000);
  EXPECT_EQ(Await().code(), absl::StatusCode::kFailedPrecondition);
  ExpectAllReleased();
  EXPECT_TRUE(Get(10'000, 10'000).ok());
}

// What is on its way comes back with the connection's end, what is given later at once.
TEST_F(PiecesTest, PiecesAreReleasedWhenTheClientDisconnects) {
  StartAll();
  Begin(kMaxItem);
  Write(0, 60'000);
  ASSERT_TRUE(RunUntil([this] { return released_ == given_; }));
  nodes[0]->port().SetUp(false);
  for (size_t i = 1; i <= Responder::kMaxPieces; ++i) Write(i * 60'000, 60'000);
  EXPECT_FALSE(reply().CanWrite());
  EXPECT_FALSE(reply().client_is_gone());
  ASSERT_TRUE(RunUntil([this] { return released_ == given_; }));
  EXPECT_TRUE(reply().CanWrite());
  EXPECT_TRUE(reply().client_is_gone());
  WriteNow(600'000, 60'000);
  EXPECT_EQ(released_, given_);
  EXPECT_EQ(server->server->connections(), 1u);
  Send(660'000, 700'000);
  EXPECT_EQ(released_, given_);
  EXPECT_TRUE(RunUntil([this] { return server->server->connections() == 0; }));
  EXPECT_EQ(counters().replies_dropped, 1u);
  EXPECT_EQ(Await().code(), absl::StatusCode::kUnavailable);
  nodes[0]->port().SetUp(true);
  EXPECT_TRUE(RunUntil([this] { return ended.has_value(); }));
}

// What does not fit into the send queue beside it, waits for its turn.
TEST_F(PiecesTest, PiecesOfManyCallsFillManySegments) {
  StartHostile();
  std::vector<Segment> segments;
  for (size_t i = 0; i < 100; ++i) segments.push_back(hostile->SegmentAt(100 * i, 60));
  Header header = HeaderOf();
  header.chunks.AddWriteChunk(segments);
  constexpr uint32_t kCalls = 8;
  for (uint32_t xid = 1; xid <= kCalls; ++xid) {
    hostile->Send(WithXid(MessageOf(header, MirrorCall(kGradual)), xid));
  }
  ASSERT_TRUE(RunUntil([this] { return server->gradual.size() == kCalls; }));
  while (!server->gradual.empty()) {
    Write(0, 3000);
    Write(3000, 2000);
    Send(5000, 6000);
    server->gradual.pop_back();
  }
  ASSERT_TRUE(RunUntil([this] { return hostile->received.size() == kCalls; }));
  EXPECT_FALSE(hostile->ended());
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(std::equal(hostile->memory() + 100 * i, hostile->memory() + 100 * i + 60,
                           pattern_.data() + 60 * i));
  }
  ExpectAllReleased();
}

}  // namespace
}  // namespace pollux::rpcrdma
