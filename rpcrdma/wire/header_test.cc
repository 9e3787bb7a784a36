#include "rpcrdma/wire/header.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/base/random.h"

namespace pollux::rpcrdma {
namespace {

// Parses from a heap block of exactly the message's length, so that sanitizers see an overread.
HeaderStatus Parse(const std::vector<uint8_t>& message, Header* header, size_t* bytes) {
  std::unique_ptr<uint8_t[]> copy(new uint8_t[message.size()]);
  std::copy(message.begin(), message.end(), copy.get());
  return ParseHeader({copy.get(), message.size()}, header, bytes);
}

std::vector<uint8_t> Words(std::initializer_list<uint32_t> words) {
  std::vector<uint8_t> out(words.size() * 4);
  size_t at = 0;
  for (uint32_t word : words) {
    StoreBe32(&out[at], word);
    at += 4;
  }
  return out;
}

// As XDR has it, RFC 8166 section 4: every test below parses or emits words.
std::vector<uint8_t> Emitted(const Header& header) {
  std::vector<uint8_t> out(HeaderBytes(header));
  EXPECT_EQ(EmitHeader(header, absl::MakeSpan(out)), out.size());
  return out;
}

// A call with a Read chunk of two segments, two Write chunks (one empty) and a Reply chunk.
std::vector<uint8_t> Everything() {
  return Words(
      {0x01020304, 1,   32,     0,                                                             //
       1,          148, 0xAA01, 4096, 0,      0x10000, 1,      148, 0xAA02, 5,       1, 0, 0,  //
       1,          2,   0xBB01, 100,  0,      0x20000, 0xBB02, 200, 0,      0x30000, 1, 0, 0,  //
       1,          1,   0xCC01, 8192, 0x7FFF, 0x40000});
}

TEST(Header, EveryListRoundTrips) {
  const std::vector<uint8_t> bytes = Everything();
  Header header;
  size_t length = 0;
  ASSERT_EQ(Parse(bytes, &header, &length), HeaderStatus::kOk);
  EXPECT_EQ(length, bytes.size());
  EXPECT_EQ(header.xid, 0x01020304u);
  EXPECT_EQ(header.credits, 32u);
  ASSERT_EQ(header.chunks.read_count, 2);
  EXPECT_EQ(header.chunks.reads[1], (ReadSegment{148, {0xAA02, 5, 1ull << 32}}));
  ASSERT_EQ(header.chunks.write_chunk_count, 2);
  EXPECT_EQ(header.chunks.BytesOf(header.chunks.write_chunks[0]), 300u);
  EXPECT_EQ(header.chunks.write_chunks[1].count, 0);
  ASSERT_TRUE(header.chunks.has_reply);
  EXPECT_EQ(header.chunks.SegmentsOf(header.chunks.reply)[0],
            (Segment{0xCC01, 8192, 0x7FFF00040000}));
  EXPECT_EQ(Emitted(header), bytes);
}

TEST(Header, ThePayloadStartsAfterTheLists) {
  Header header;
  size_t length = 0;
  ASSERT_EQ(Parse(Words({7, 1, 1, 0, 0, 0, 0, 7, 0}), &header, &length), HeaderStatus::kOk);
  EXPECT_EQ(length, kMinHeaderBytes);
}

// RFC 8166 section 4.5: too short to be trusted; longer ones answer ERR_CHUNK.
TEST(Header, EveryTruncationIsRefused) {
  const std::vector<uint8_t> bytes = Everything();
  for (size_t n = 0; n < bytes.size(); ++n) {
    Header header;
    size_t length = 99;
    const HeaderStatus status = Parse({bytes.begin(), bytes.begin() + n}, &header, &length);
    EXPECT_EQ(status, n < 28 ? HeaderStatus::kTooShort : HeaderStatus::kMalformed) << n;
    EXPECT_EQ(length, 0u);
    EXPECT_TRUE(header.chunks.empty());
  }
}

TEST(Header, ErrorAndDoneMessagesRoundTrip) {
  for (const auto& bytes : {Words({9, 1, 4, 4, 1, 1, 1}), Words({9, 1, 4, 4, 2}),
                            Words({9, 1, 4, 3}), Words({9, 1, 4, 2, 64, 512, 0, 0, 0})}) {
    Header header;
    size_t length = 0;
    ASSERT_EQ(Parse(bytes, &header, &length), HeaderStatus::kOk);
    EXPECT_EQ(length, bytes.size());
    EXPECT_EQ(Emitted(header), bytes);
  }
  Header header;
  size_t length;
  // ERR_VERS without its range, an error nobody knows
  EXPECT_EQ(Parse(Words({9, 1, 4, 4, 1}), &header, &length), HeaderStatus::kMalformed);
  EXPECT_EQ(Parse(Words({9, 1, 4, 4, 3, 0, 0}), &header, &length), HeaderStatus::kMalformed);
}

// RFC 8166 section 4.2.2 and section 4.5.1
TEST(Header, AnotherVersionIsReportedAsBadVersion) {
  Header header;
  size_t length;
  EXPECT_EQ(Parse(Words({9, 2, 4, 0, 0, 0, 0}), &header, &length), HeaderStatus::kBadVersion);
  EXPECT_EQ(header.xid, 9u);
  EXPECT_EQ(header.version, 2u);
}

// RFC 8166 section 4.5.2
TEST(Header, InvalidListsAreMalformed) {
  Header header;
  size_t length;
  const std::vector<std::vector<uint8_t>> bad = {
      Words({9, 1, 4, 5, 0, 0, 0}),                          // a procedure nobody knows
      Words({9, 1, 4, 1, 0, 0, 0}),                          // NOMSG without a chunk
      Words({9, 1, 4, 0, 2, 0, 0, 0}),                       // an optional that is neither 0 nor 1
      Words({9, 1, 4, 0, 0, 1, 0x00FFFFFF, 1, 1, 1, 1}),     // millions of segments
      Words({9, 1, 4, 0, 0, 1, 0xFFFFFFFF, 1, 1, 1, 1}),     //
      Words({9, 1, 4, 0, 0, 0, 1, 0x80000000, 1, 1, 1}),     //
      Words({9, 1, 4, 0, 1, 6, 1, 1, 0, 0, 0, 0, 0}),        // RFC 8166 section 3.4.5: position
      Words({9, 1, 4, 0, 1, 4, 1, 2, ~0u, ~0u, 0, 0, 0}),    // wraps around the address space
      Words({9, 1, 4, 0, 0, 0, 1, 1, 1, 17, ~0u, ~0u - 15})  //
  };
  for (const auto& bytes : bad) {
    EXPECT_EQ(Parse(bytes, &header, &length), HeaderStatus::kMalformed);
    EXPECT_EQ(header.xid, 9u);
  }
}

TEST(Header, BoundsHoldAtTheLimitAndOnePast) {
  for (size_t past = 0; past < 2; ++past) {
    const HeaderStatus expected = past == 0 ? HeaderStatus::kOk : HeaderStatus::kMalformed;
    std::vector<uint8_t> reads = Words({1, 1, 1, 0});
    for (size_t i = 0; i < kMaxReadSegments + past; ++i) {
      for (uint8_t b : Words({1, 4, 1, 1, 0, 0})) reads.push_back(b);
    }
    for (uint8_t b : Words({0, 0, 0})) reads.push_back(b);
    std::vector<uint8_t> chunks = Words({1, 1, 1, 0, 0});
    for (size_t i = 0; i < kMaxWriteChunks + past; ++i) {
      for (uint8_t b : Words({1, 0})) chunks.push_back(b);
    }
    for (uint8_t b : Words({0, 0})) chunks.push_back(b);
    std::vector<uint8_t> segments =
        Words({1, 1, 1, 0, 0, 0, 1, static_cast<uint32_t>(kMaxWriteSegments + past)});
    for (size_t i = 0; i < kMaxWriteSegments + past; ++i) {
      for (uint8_t b : Words({1, 1, 0, 0})) segments.push_back(b);
    }
    Header header;
    size_t length;
    EXPECT_EQ(Parse(reads, &header, &length), expected);
    EXPECT_EQ(Parse(chunks, &header, &length), expected);
    EXPECT_EQ(Parse(segments, &header, &length), expected);
  }
  ChunkLists lists;
  for (size_t i = 0; i < kMaxReadSegments; ++i) EXPECT_TRUE(lists.AddRead(4, {}));
  EXPECT_FALSE(lists.AddRead(4, {}));
  for (size_t i = 0; i < kMaxWriteChunks; ++i) EXPECT_TRUE(lists.AddWriteChunk({}));
  EXPECT_FALSE(lists.AddWriteChunk({}));
  const std::vector<Segment> many(kMaxWriteSegments + 1);
  EXPECT_FALSE(lists.SetReply(many));
  EXPECT_TRUE(lists.SetReply(absl::MakeSpan(many).subspan(1)));
  EXPECT_FALSE(lists.SetReply({}));
}

TEST(Header, EmitIntoATooSmallBufferFails) {
  Header header;
  std::vector<uint8_t> out(kMinHeaderBytes);
  EXPECT_EQ(EmitHeader(header, absl::MakeSpan(out).first(kMinHeaderBytes - 1)), 0u);
  EXPECT_EQ(EmitHeader(header, absl::MakeSpan(out)), kMinHeaderBytes);
}

TEST(Header, ParsedHeadersReencodeByteForByte) {
  Random random(42);
  const std::vector<uint8_t> seed = Everything();
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bytes = seed;
    for (uint64_t flips = random.Below(4); flips > 0; --flips) {
      bytes[random.Below(bytes.size())] ^= static_cast<uint8_t>(1u << random.Below(8));
    }
    bytes.resize(random.Below(4) == 0 ? random.Below(bytes.size() + 1) : bytes.size());
    Header header;
    size_t length;
    if (Parse(bytes, &header, &length) != HeaderStatus::kOk) continue;
    ++parsed;
    ASSERT_LE(length, bytes.size());
    EXPECT_EQ(Emitted(header), std::vector<uint8_t>(bytes.begin(), bytes.begin() + length));
  }
  EXPECT_GT(parsed, 1000);
}

}  // namespace
}  // namespace pollux::rpcrdma
