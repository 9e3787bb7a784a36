// Both streams, on rpcgen's kind of structures.
#include "rpcrdma/tirpc/xdr_encoder.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "rpcrdma/tirpc/xdr_decoder.h"

namespace pollux::rpcrdma::tirpc {
namespace {

// struct Block { string name<>; opaque verifier[8]; opaque data<>; opaque more<>; int last; };
struct Block {
  char* name = nullptr;
  char verifier[8] = {};
  struct {
    u_int length = 0;
    char* value = nullptr;
  } data, more;
  int last = 0;
};

constexpr u_int kMax = 1u << 20;
const ItemFields kFields{.offsets = {offsetof(Block, data.value), offsetof(Block, more.value)},
                         .max_bytes = 5000};

bool_t XdrBlock(XDR* xdr, Block* block) {
  return static_cast<bool_t>(
      xdr_string(xdr, &block->name, kMax) && xdr_opaque(xdr, block->verifier, 8) &&
      xdr_bytes(xdr, &block->data.value, &block->data.length, kMax) &&
      xdr_bytes(xdr, &block->more.value, &block->more.length, kMax) && xdr_int(xdr, &block->last));
}

std::string Pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

struct Sample {
  explicit Sample(size_t data_bytes, size_t more_bytes = 0)
      : data(Pattern(data_bytes)), more(Pattern(more_bytes)) {
    block.name = name.data();
    block.data.length = static_cast<u_int>(data.size());
    block.data.value = data.data();
    block.more.length = static_cast<u_int>(more.size());
    block.more.value = more.data();
    block.last = 77;
  }
  std::string name = "a name", data, more;
  Block block;
};

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(XdrEncoder, WithoutItemsTheOutputIsPlainXdr) {
  Sample sample(1001, 2);
  std::vector<char> expected(8192);
  XDR plain;
  xdrmem_create(&plain, expected.data(), static_cast<u_int>(expected.size()), XDR_ENCODE);
  ASSERT_TRUE(XdrBlock(&plain, &sample.block));
  XdrEncoder encoder;
  for (int i = 0; i < 2; ++i) {
    encoder.Reset(kMax);
    ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
    EXPECT_TRUE(encoder.items().empty());
    ASSERT_EQ(encoder.bytes().size(), xdr_getpos(&plain));
    EXPECT_EQ(std::memcmp(encoder.bytes().data(), expected.data(), encoder.bytes().size()), 0);
  }
}

// RFC 8166 sections 3.4.4.1 and 3.4.5.2
TEST(XdrEncoder, EligibleOpaquesAndTheirPadsBecomeItems) {
  Sample sample(1001, 2);
  XdrEncoder encoder;
  encoder.Reset(kMax);
  encoder.Watch(&kFields, &sample.block);
  ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
  ASSERT_EQ(encoder.items().size(), 2u);
  EXPECT_EQ(encoder.items()[0].bytes, BytesOf(sample.data));
  EXPECT_EQ(encoder.items()[0].bytes.data(), BytesOf(sample.data).data());
  // Length and text of the name, the verifier, the length.
  EXPECT_EQ(encoder.items()[0].position, 4u + 8 + 8 + 4);
  EXPECT_EQ(encoder.items()[1].position, encoder.items()[0].position + 4);
  EXPECT_EQ(encoder.bytes().size(), encoder.items()[1].position + 4);
}

TEST(XdrEncoder, AnEmptyItemKeepsItsPosition) {
  Sample sample(0, 12);
  XdrEncoder encoder;
  encoder.Reset(kMax);
  encoder.Watch(&kFields, &sample.block);
  ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
  ASSERT_EQ(encoder.items().size(), 2u);
  EXPECT_TRUE(encoder.items()[0].bytes.empty());
  EXPECT_EQ(encoder.items()[1].bytes, BytesOf(sample.more));
}

TEST(XdrEncoder, ItemsAndStreamsAboveTheirLimitFail) {
  XdrEncoder encoder;
  for (const size_t bytes : {5000u, 5001u}) {
    Sample sample(bytes);
    encoder.Reset(kMax);
    encoder.Watch(&kFields, &sample.block);
    EXPECT_EQ(XdrBlock(encoder.xdr(), &sample.block) != FALSE, bytes == 5000);
  }
  Sample sample(1000);
  constexpr size_t kWhole = 4 + 8 + 8 + 4 + 1000 + 4 + 4;
  for (const size_t room : {kWhole, kWhole - 1}) {
    encoder.Reset(room);
    EXPECT_EQ(XdrBlock(encoder.xdr(), &sample.block) != FALSE, room == kWhole);
  }
}

TEST(XdrEncoder, SupportsThePositioningOfRpcsecGss) {
  XdrEncoder encoder;
  encoder.Reset(64);
  XDR* const xdr = encoder.xdr();
  u_int word = 7;
  ASSERT_TRUE(xdr_u_int(xdr, &word));
  const u_int start = xdr_getpos(xdr);
  ASSERT_TRUE(xdr_setpos(xdr, start + 4));
  int32_t* const two = xdr_inline(xdr, 8);
  ASSERT_NE(two, nullptr);
  two[0] = two[1] = 0;
  ASSERT_TRUE(xdr_setpos(xdr, start));
  ASSERT_TRUE(xdr_u_int(xdr, &word));
  ASSERT_TRUE(xdr_setpos(xdr, start + 12));
  EXPECT_EQ(encoder.bytes().size(), 16u);
  EXPECT_EQ(encoder.bytes()[7], 7);
  EXPECT_FALSE(xdr_setpos(xdr, 65));
  EXPECT_EQ(xdr_inline(xdr, 64), nullptr);
}

TEST(XdrDecoder, ItemsAreReturnedInPlace) {
  for (const bool by_position : {true, false}) {
    Sample sample(1001, 2);
    XdrEncoder encoder;
    encoder.Reset(kMax);
    encoder.Watch(&kFields, &sample.block);
    ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
    std::array<oncrpc::ReducedItem, 2> items = {oncrpc::ReducedItem{.bytes = BytesOf(sample.data)},
                                                oncrpc::ReducedItem{.bytes = BytesOf(sample.more)}};
    if (by_position) {
      items[0].position = 24;
      items[1].position = 24 + 1004 + 4;
    }
    Block got;
    XdrDecoder decoder;
    decoder.Reset(encoder.bytes());
    decoder.Watch(&kFields, &got, items);
    ASSERT_TRUE(XdrBlock(decoder.xdr(), &got));
    EXPECT_TRUE(decoder.TookAll());
    EXPECT_EQ(decoder.copied_bytes(), 0u);
    EXPECT_EQ(got.data.value, sample.data.data());
    EXPECT_EQ(got.data.length, 1001u);
    EXPECT_EQ(got.more.value, sample.more.data());
    EXPECT_STREQ(got.name, "a name");
    EXPECT_EQ(got.last, 77);
    ASSERT_EQ(decoder.adopted().size(), 2u);
    for (const XdrDecoder::Adopted& adopted : decoder.adopted()) *adopted.field = nullptr;
    xdr_free(reinterpret_cast<xdrproc_t>(XdrBlock), &got);
  }
}

TEST(XdrDecoder, CopiesIntoBuffersOfTheUser) {
  Sample sample(1001);
  XdrEncoder encoder;
  encoder.Reset(kMax);
  encoder.Watch(&kFields, &sample.block);
  ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
  const oncrpc::ReducedItem item{.bytes = BytesOf(sample.data), .position = 24};
  std::string own(2000, 'x');
  Block got;
  got.data.value = own.data();
  XdrDecoder decoder;
  decoder.Reset(encoder.bytes());
  decoder.Watch(&kFields, &got, {&item, 1});
  ASSERT_TRUE(XdrBlock(decoder.xdr(), &got));
  EXPECT_TRUE(decoder.adopted().empty());
  EXPECT_EQ(decoder.copied_bytes(), 1001u);
  EXPECT_EQ(own.substr(0, 1001), sample.data);
  EXPECT_EQ(own[1001], 'x');
  got.data.value = nullptr;
  xdr_free(reinterpret_cast<xdrproc_t>(XdrBlock), &got);
}

// Items that stay in the stream although their field is watched: small arguments, results without a
// Write chunk or with an empty one.
TEST(XdrDecoder, ItemsMayBeInTheStream) {
  Sample sample(999, 3);
  XdrEncoder encoder;
  encoder.Reset(kMax);
  ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
  const std::array<oncrpc::ReducedItem, 2> empty = {oncrpc::ReducedItem{.in_stream = true},
                                                    oncrpc::ReducedItem{.in_stream = true}};
  for (const absl::Span<const oncrpc::ReducedItem> items :
       {absl::Span<const oncrpc::ReducedItem>(), absl::MakeConstSpan(empty)}) {
    Block got;
    XdrDecoder decoder;
    decoder.Reset(encoder.bytes());
    decoder.Watch(&kFields, &got, items);
    ASSERT_TRUE(XdrBlock(decoder.xdr(), &got));
    EXPECT_TRUE(decoder.adopted().empty());
    EXPECT_EQ(std::string(got.data.value, got.data.length), sample.data);
    EXPECT_EQ(std::string(got.more.value, got.more.length), sample.more);
    xdr_free(reinterpret_cast<xdrproc_t>(XdrBlock), &got);
  }
}

// RFC 8166 section 6.1
TEST(XdrDecoder, RefusesAnInlineResultDespiteItsWriteChunk) {
  for (const size_t more : {0, 3}) {
    Sample sample(more == 0 ? 999 : 0, more);
    XdrEncoder encoder;
    encoder.Reset(kMax);
    ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
    const std::array<oncrpc::ReducedItem, 2> unused;
    Block got;
    XdrDecoder decoder;
    decoder.Reset(encoder.bytes());
    decoder.Watch(&kFields, &got, unused);
    EXPECT_FALSE(XdrBlock(decoder.xdr(), &got));
    xdr_free(reinterpret_cast<xdrproc_t>(XdrBlock), &got);
  }
}

// RFC 8166 section 6.1
TEST(XdrDecoder, RefusesItemsOutsideTheBinding) {
  Sample sample(1001);
  XdrEncoder encoder;
  encoder.Reset(kMax);
  encoder.Watch(&kFields, &sample.block);
  ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
  const std::string name(6, 'n'), short_item = sample.data.substr(1),
                                  long_item = sample.data + "1234";
  const oncrpc::ReducedItem bad[] = {
      {.bytes = BytesOf(name), .position = 4},  // a string is no opaque of the binding
      {.bytes = BytesOf(short_item), .position = 24},
      {.bytes = BytesOf(long_item), .position = 24},
      {.bytes = BytesOf(sample.data), .position = 28},  // no item stands there
      {.bytes = BytesOf(short_item), .position = std::nullopt},
  };
  for (const oncrpc::ReducedItem& item : bad) {
    Block got;
    XdrDecoder decoder;
    decoder.Reset(encoder.bytes());
    decoder.Watch(&kFields, &got, {&item, 1});
    EXPECT_FALSE(XdrBlock(decoder.xdr(), &got) && decoder.TookAll());
    for (const XdrDecoder::Adopted& adopted : decoder.adopted()) *adopted.field = nullptr;
    xdr_free(reinterpret_cast<xdrproc_t>(XdrBlock), &got);
  }
}

TEST(XdrDecoder, RefusesItemsThatAreTooLargeForTheBinding) {
  Sample sample(kFields.max_bytes + 1);
  ItemFields wide = kFields;
  wide.max_bytes = kMax;
  XdrEncoder encoder;
  encoder.Reset(kMax);
  encoder.Watch(&wide, &sample.block);
  ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
  std::vector<oncrpc::ReducedItem> items;
  for (const auto& item : encoder.items()) {
    items.push_back({.bytes = item.bytes, .position = item.position});
  }
  for (const bool eligible : {true, false}) {
    Block got;
    XdrDecoder decoder;
    decoder.Reset(encoder.bytes());
    decoder.Watch(eligible ? &wide : &kFields, &got, items);
    EXPECT_EQ(XdrBlock(decoder.xdr(), &got) && decoder.TookAll(), eligible);
    for (const XdrDecoder::Adopted& adopted : decoder.adopted()) *adopted.field = nullptr;
    xdr_free(reinterpret_cast<xdrproc_t>(XdrBlock), &got);
  }
}

TEST(XdrDecoder, TruncatedInputIsRefused) {
  Sample sample(40, 4);
  XdrEncoder encoder;
  encoder.Reset(kMax);
  ASSERT_TRUE(XdrBlock(encoder.xdr(), &sample.block));
  for (size_t bytes = 0; bytes < encoder.bytes().size(); ++bytes) {
    Block got;
    XdrDecoder decoder;
    decoder.Reset(encoder.bytes().first(bytes));
    decoder.Watch(&kFields, &got, {});
    EXPECT_FALSE(XdrBlock(decoder.xdr(), &got)) << bytes;
    xdr_free(reinterpret_cast<xdrproc_t>(XdrBlock), &got);
  }
  XdrDecoder decoder;
  decoder.Reset(encoder.bytes());
  EXPECT_FALSE(xdr_setpos(decoder.xdr(), static_cast<u_int>(encoder.bytes().size() + 1)));
  EXPECT_TRUE(xdr_setpos(decoder.xdr(), 4));
  EXPECT_EQ(xdr_getpos(decoder.xdr()), 4u);
}

}  // namespace
}  // namespace pollux::rpcrdma::tirpc
