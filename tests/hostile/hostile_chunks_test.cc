// Clients whose chunks name what is not theirs, or too little, or in any odd way.
#include <algorithm>
#include <initializer_list>

#include "rpcrdma/hostile_client_for_test.h"

namespace pollux::rpcrdma {
namespace {

class HostileChunksTest : public HostileClientTest {};

// Whose memory it names is found out by the client's host. That connection ends; no other. RFC 8166
// section 8.1.1 and RFC 5042 section 6.4.5
TEST_F(HostileChunksTest, KeysOfAnotherConnectionEndOnlyThisConnection) {
  StartHostile();
  const std::vector<uint8_t> length = Words({4096});
  const std::unique_ptr<RawPeer> victim = NewPeer();
  std::fill_n(victim->memory(), RawPeer::kMemoryBytes, 0xEE);
  uint32_t xid = 0;
  for (const Segment& target : {kForeign, victim->SegmentAt(0, 4096)}) {
    Header read = HeaderOf(), write = HeaderOf(), reply = HeaderOf();
    Header pulled = HeaderOf(Proc::kNomsg);
    read.chunks.AddRead(kCallBytes + 4, target);
    pulled.chunks.AddRead(0, target);
    write.chunks.AddWriteChunk({&target, 1});
    reply.chunks.SetReply({&target, 1});
    const RawPeer::Message messages[] = {
        MessageOf(read, MirrorCall(kPut, length)), MessageOf(pulled),
        MessageOf(write, MirrorCall(kGet, length)),
        // The result with its headers is larger than the message that the server may send.
        MessageOf(reply, MirrorCall(kGet, Words({4060})))};
    for (const RawPeer::Message& message : messages) {
      hostile = NewPeer();
      ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 3; }));
      const uint64_t lost = counters().connections_lost;
      hostile->Send(WithXid(message, ++xid));
      ASSERT_TRUE(RunUntil([this] { return hostile->ended(); }));
      ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 2; }));
      EXPECT_EQ(counters().connections_lost, lost + 1);
      ExpectTheOtherClientIsServed();
    }
  }
  EXPECT_TRUE(std::all_of(victim->memory(), victim->memory() + RawPeer::kMemoryBytes,
                          [](uint8_t byte) { return byte == 0xEE; }));
  EXPECT_FALSE(victim->ended());
  EXPECT_TRUE(RunUntil([this] { return server->releases > 0; }));
}

// The client's own once, and no more.
TEST_F(HostileChunksTest, ExpiredKeysEndOnlyThisConnection) {
  StartHostile();
  for (const bool pushes : {true, false}) {
    hostile = NewPeer();
    ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 2; }));
    const Segment target = hostile->ExpiredSegment(0, 4096);
    Header header = HeaderOf();
    if (pushes) {
      header.chunks.AddWriteChunk({&target, 1});
    } else {
      header.chunks.AddRead(kCallBytes + 8, target);
    }
    const uint64_t lost = counters().connections_lost;
    hostile->Send(WithXid(MessageOf(header, pushes ? MirrorCall(kGet, Words({4096}))
                                                   : MirrorCall(kPut, Words({1, 4096, 2}))),
                          pushes ? 1 : 2));
    ASSERT_TRUE(RunUntil([this] { return hostile->ended(); }));
    ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
    EXPECT_EQ(counters().connections_lost, lost + 1);
    ExpectTheOtherClientIsServed();
  }
}

// RFC 8166 section 4.5.3: the reply is not cut to what was offered, and nothing of it is sent.
TEST_F(HostileChunksTest, AReplyChunkThatIsTooSmallIsAnError) {
  StartHostile();
  std::fill_n(hostile->memory(), RawPeer::kMemoryBytes, 0xEE);
  constexpr uint32_t kItem = 20'000;  // more than a message takes
  constexpr uint32_t kReply = oncrpc::kReplyHeaderBytes + 12 + kItem;
  const auto ask = [&](std::initializer_list<uint32_t> lengths) {
    std::vector<Segment> segments;
    for (const uint32_t length : lengths) {
      segments.push_back(hostile->SegmentAt(30'000 * segments.size(), length));
    }
    Header header = HeaderOf();
    header.chunks.SetReply(segments);
    return Ask(MessageOf(header, MirrorCall(kGet, Words({kItem}))));
  };
  uint64_t refused = 0;
  for (const RawPeer::Message& reply :
       {ask({kReply - 1}), ask({100, kReply - 101}), ask({0}), ask({})}) {
    ASSERT_EQ(reply.size(), 20u);
    EXPECT_EQ(WordAt(reply, 0), kXid);
    EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(Proc::kError));
    EXPECT_EQ(WordAt(reply, 4), static_cast<uint32_t>(ErrorCode::kChunk));
    ++refused;
  }
  EXPECT_EQ(counters().replies_too_large, refused);
  EXPECT_TRUE(std::all_of(hostile->memory(), hostile->memory() + RawPeer::kMemoryBytes,
                          [](uint8_t byte) { return byte == 0xEE; }));
  // At the limit.
  const RawPeer::Message reply = ask({100, kReply - 100});
  Header answer;
  size_t bytes = 0;
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  EXPECT_EQ(answer.proc, Proc::kNomsg);
  EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.reply), kReply);
  EXPECT_EQ(counters().replies_too_large, refused);
  ExpectServed();
  ExpectTheOtherClientIsServed();
}

// RFC 8166 section 3.4.5.2: an item of segments of any length, with its pad or without. RFC 8166
// section 4.3.1: the reply has no Read list.
TEST_F(HostileChunksTest, ScatteredReadChunksAreGathered) {
  StartHostile();
  std::fill_n(hostile->memory(), RawPeer::kMemoryBytes, 0xEE);
  const std::vector<uint8_t> item = Pattern(5001);
  const uint32_t lengths[] = {1, 0, 33, 4967};
  for (const uint32_t pad : {0u, 3u}) {
    Header header = HeaderOf();
    size_t from = 0, at = 1;  // the memory is as odd as the lengths
    for (uint32_t length : lengths) {
      std::copy_n(item.begin() + static_cast<ptrdiff_t>(from), length, hostile->memory() + at);
      from += length;
      if (from == item.size()) length += pad;
      header.chunks.AddRead(kCallBytes + 8, hostile->SegmentAt(at, length));
      at += length + 7;
    }
    const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kPut, Words({1, 5001, 2}))));
    Header answer;
    size_t bytes = 0;
    ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
    EXPECT_EQ(answer.chunks.read_count, 0);
    ASSERT_EQ(reply.size(), bytes + oncrpc::kReplyHeaderBytes + 16) << pad;
    const size_t results = (bytes + oncrpc::kReplyHeaderBytes) / 4;
    EXPECT_EQ(WordAt(reply, results), 5001u);
    EXPECT_EQ(WordAt(reply, results + 1), SumOf(item));
    EXPECT_EQ(WordAt(reply, results + 3), 2u);
  }
  ExpectTheOtherClientIsServed();
}

// RFC 8166 section 4.3.2.3: the first result stays in the message, and the chunk comes back empty.
TEST_F(HostileChunksTest, AnEmptyWriteChunkLeavesItsResultInline) {
  StartHostile();
  const Segment segment = hostile->SegmentAt(100, 4000);
  Header header = HeaderOf();
  header.chunks.AddWriteChunk({});
  header.chunks.AddWriteChunk({&segment, 1});
  const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kGet, Words({500}))));
  Header answer;
  size_t bytes = 0;
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  ASSERT_EQ(answer.chunks.write_chunk_count, 2);
  EXPECT_EQ(answer.chunks.write_chunks[0].count, 0);
  ASSERT_EQ(answer.chunks.write_chunks[1].count, 1);
  EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.write_chunks[1]), 0u);
  const std::vector<uint8_t> item = Pattern(500);
  ASSERT_EQ(reply.size(), bytes + oncrpc::kReplyHeaderBytes + 12 + 500);
  EXPECT_TRUE(
      std::equal(item.begin(), item.end(), reply.begin() + bytes + oncrpc::kReplyHeaderBytes + 8));
}

// RFC 8166 section 3.4.6 and section 4.3.2: segments are filled in order, what is not needed comes
// back as 0.
TEST_F(HostileChunksTest, ScatteredWriteChunksAreFilled) {
  StartHostile();
  std::fill_n(hostile->memory(), RawPeer::kMemoryBytes, 0xEE);
  const Segment segments[] = {hostile->SegmentAt(100, 1), hostile->SegmentAt(200, 0),
                              hostile->SegmentAt(300, 4999), hostile->SegmentAt(6000, 77)};
  Header header = HeaderOf();
  header.chunks.AddWriteChunk(segments);
  header.chunks.AddWriteChunk({});
  header.chunks.AddWriteChunk(segments);
  const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kGet, Words({5000}))));
  Header answer;
  size_t bytes = 0;
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  ASSERT_EQ(answer.chunks.write_chunk_count, 3);
  EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.write_chunks[0]), 5000u);
  EXPECT_EQ(answer.chunks.write_chunks[1].count, 0);
  EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.write_chunks[2]), 0u);
  const std::vector<uint8_t> item = Pattern(5000);
  EXPECT_EQ(hostile->memory()[100], item[0]);
  EXPECT_TRUE(std::equal(item.begin() + 1, item.end(), hostile->memory() + 300));
  for (size_t at : {99u, 101u, 200u, 299u, 5299u, 6000u}) EXPECT_EQ(hostile->memory()[at], 0xEE);
}

// RFC 8166 section 3.4.6.2: neither written, where there is room for it, nor counted.
TEST_F(HostileChunksTest, APadIsNotWrittenToAWriteChunk) {
  StartHostile();
  std::fill_n(hostile->memory(), RawPeer::kMemoryBytes, 0xEE);
  const Segment segment = hostile->SegmentAt(0, 8192);
  Header header = HeaderOf();
  header.chunks.AddWriteChunk({&segment, 1});
  const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kGet, Words({4097}))));
  Header answer;
  size_t bytes = 0;
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  ASSERT_EQ(answer.chunks.write_chunk_count, 1);
  EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.write_chunks[0]), 4097u);
  EXPECT_EQ(hostile->memory()[4096], PatternAt(4096));
  for (size_t at = 4097; at < 4104; ++at) EXPECT_EQ(hostile->memory()[at], 0xEE);
}

// RFC 8166 section 4.3.3: with its one segment, of which nothing was used.
TEST_F(HostileChunksTest, AnUnusedReplyChunkIsReturned) {
  StartHostile();
  const Segment segment = hostile->SegmentAt(0, 4096);
  Header header = HeaderOf();
  header.chunks.SetReply({&segment, 1});
  const RawPeer::Message reply = Ask(MessageOf(header, MirrorCall(kNull)));
  Header answer;
  size_t bytes = 0;
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  EXPECT_EQ(answer.proc, Proc::kMsg);
  ASSERT_TRUE(answer.chunks.has_reply);
  const absl::Span<const Segment> back = answer.chunks.SegmentsOf(answer.chunks.reply);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0], (Segment{segment.handle, 0, segment.offset}));
}

// A client that registers page by page, as peers with 4 KiB pages do for 1 MiB that begins inside
// one: a Read chunk, a Write chunk and a Reply chunk of 257 segments each.
TEST_F(HostileChunksTest, ChunksMayHaveASegmentPerPage) {
  constexpr uint32_t kPages = 257, kPage = 512, kBytes = kPages * kPage;
  static_assert(kBytes <= RawPeer::kMemoryBytes);
  StartHostile({.send_bytes = RawPeer::kMessageBytes, .receive_bytes = RawPeer::kMessageBytes});
  std::vector<Segment> pages;
  for (uint32_t i = 0; i < kPages; ++i) pages.push_back(hostile->SegmentAt(i * kPage, kPage));
  const std::vector<uint8_t> item = Pattern(kBytes);

  Header put = HeaderOf();
  std::copy(item.begin(), item.end(), hostile->memory());
  for (const Segment& page : pages) ASSERT_TRUE(put.chunks.AddRead(kCallBytes + 8, page));
  RawPeer::Message reply = Ask(MessageOf(put, MirrorCall(kPut, Words({1, kBytes, 2}))));
  ASSERT_EQ(reply.size(), kMinHeaderBytes + oncrpc::kReplyHeaderBytes + 16);
  EXPECT_EQ(WordAt(reply, (kMinHeaderBytes + oncrpc::kReplyHeaderBytes) / 4 + 1), SumOf(item));

  Header get = HeaderOf();
  std::fill_n(hostile->memory(), kBytes, 0xEE);
  ASSERT_TRUE(get.chunks.AddWriteChunk(pages));
  reply = Ask(WithXid(MessageOf(get, MirrorCall(kGet, Words({kBytes}))), kXid + 1));
  EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(Proc::kMsg));
  EXPECT_TRUE(std::equal(item.begin(), item.end(), hostile->memory()));

  Header long_reply = HeaderOf();
  ASSERT_TRUE(long_reply.chunks.SetReply(pages));
  std::fill_n(hostile->memory(), kBytes, 0xEE);
  reply = Ask(WithXid(MessageOf(long_reply, MirrorCall(kGet, Words({100'000}))), kXid + 3));
  EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(Proc::kNomsg));
  EXPECT_TRUE(std::equal(item.begin(), item.begin() + 100'000,
                         hostile->memory() + oncrpc::kReplyHeaderBytes + 8));
  ExpectTheOtherClientIsServed();
}

// Which memory it names how often is a client's own affair: it has what it asks for, in the order
// of its segments, and nobody else notices.
TEST_F(HostileChunksTest, OverlappingSegmentsAreUsedInOrder) {
  StartHostile();
  const std::vector<uint8_t> item = Pattern(5000);
  const Segment write[] = {hostile->SegmentAt(0, 3000), hostile->SegmentAt(1000, 3000)};
  Header get = HeaderOf();
  get.chunks.AddWriteChunk(write);
  Header answer;
  size_t bytes = 0;
  RawPeer::Message reply = Ask(MessageOf(get, MirrorCall(kGet, Words({5000}))));
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  ASSERT_EQ(answer.chunks.write_chunk_count, 1);
  EXPECT_EQ(answer.chunks.BytesOf(answer.chunks.write_chunks[0]), 5000u);
  EXPECT_TRUE(std::equal(item.begin(), item.begin() + 1000, hostile->memory()));
  EXPECT_TRUE(std::equal(item.begin() + 3000, item.end(), hostile->memory() + 1000));

  Header put = HeaderOf();
  for (const Segment& read : {hostile->SegmentAt(0, 60), hostile->SegmentAt(20, 40)}) {
    put.chunks.AddRead(kCallBytes + 8, read);
  }
  reply = Ask(MessageOf(put, MirrorCall(kPut, Words({1, 100, 2}))));
  ASSERT_EQ(ParseHeader(reply, &answer, &bytes), HeaderStatus::kOk);
  ASSERT_EQ(reply.size(), bytes + oncrpc::kReplyHeaderBytes + 16);
  const size_t results = (bytes + oncrpc::kReplyHeaderBytes) / 4;
  EXPECT_EQ(WordAt(reply, results), 100u);
  EXPECT_EQ(WordAt(reply, results + 1),
            SumOf({hostile->memory(), 60}) + SumOf({hostile->memory() + 20, 40}));
  ExpectServed();
  ExpectTheOtherClientIsServed();
}

}  // namespace
}  // namespace pollux::rpcrdma
