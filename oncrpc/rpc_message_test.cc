#include "oncrpc/rpc_message.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "oncrpc/xdr.h"

namespace pollux::oncrpc {
namespace {

// RFC 8166 section 8.2.2.3
TEST(RpcMessage, OnlyGssIntegrityAndPrivacyForbidReduction) {
  for (const auto& [service, forbids] : {std::pair{1, false}, {2, true}, {3, true}, {77, true}}) {
    const std::vector<uint8_t> body = {0, 0, 0, 1, 0, 0, 0, 0,
                                       0, 0, 0, 9, 0, 0, 0, static_cast<uint8_t>(service)};
    EXPECT_EQ(ForbidsReduction({AuthFlavor::kGss, body}), forbids) << service;
    EXPECT_FALSE(ForbidsReduction({AuthFlavor::kSys, body}));
    EXPECT_TRUE(ForbidsReduction({AuthFlavor::kGss, absl::MakeConstSpan(body).first(15)}));
  }
  EXPECT_FALSE(ForbidsReduction({}));
}

// RFC 8166 section 8.2.2: RPCSEC_GSS_INIT, CONTINUE_INIT and DESTROY, whatever their service is.
TEST(RpcMessage, GssControlMessagesForbidReduction) {
  for (uint8_t procedure = 1; procedure <= 4; ++procedure) {
    for (uint8_t service = 0; service <= 3; ++service) {
      const std::vector<uint8_t> body = {0, 0, 0, 1, 0, 0, 0, procedure,
                                         0, 0, 0, 9, 0, 0, 0, service};
      EXPECT_TRUE(ForbidsReduction({AuthFlavor::kGss, body}));
    }
  }
}

TEST(RpcMessage, CallHeaderRoundTrips) {
  const std::vector<uint8_t> body = {1, 2, 3, 4, 5};
  const CallHeader call{.xid = 7,
                        .program = 100003,
                        .version = 3,
                        .procedure = 6,
                        .credential = {AuthFlavor::kSys, body}};
  std::vector<uint8_t> out(CallHeaderBytes(call));
  ASSERT_EQ(EmitCall(call, absl::MakeSpan(out)), out.size());
  EXPECT_EQ(EmitCall(call, absl::MakeSpan(out).first(out.size() - 1)), 0u);
  CallHeader parsed;
  ASSERT_EQ(ParseCall(out, &parsed), out.size());
  EXPECT_EQ(parsed.program, 100003u);
  EXPECT_EQ(parsed.procedure, 6u);
  EXPECT_EQ(parsed.credential.flavor, AuthFlavor::kSys);
  EXPECT_EQ(parsed.credential.body, absl::MakeConstSpan(body));
  for (size_t n = 0; n < out.size(); ++n) {
    std::unique_ptr<uint8_t[]> cut(new uint8_t[n]);
    std::copy(out.begin(), out.begin() + static_cast<long>(n), cut.get());
    EXPECT_EQ(ParseCall({cut.get(), n}, &parsed), 0u) << n;
  }
}

TEST(RpcMessage, ACallHeaderWithoutCredentialRoundTrips) {
  const CallHeader call{.xid = 7, .program = 100003, .version = 3, .procedure = 6};
  std::vector<uint8_t> out(CallHeaderBytes(call));
  ASSERT_EQ(EmitCall(call, absl::MakeSpan(out)), out.size());
  CallHeader parsed{.credential = {AuthFlavor::kSys, out}, .verifier = {AuthFlavor::kGss, out}};
  ASSERT_EQ(ParseCall(out, &parsed), out.size());
  EXPECT_EQ(parsed.xid, 7u);
  EXPECT_EQ(parsed.program, 100003u);
  EXPECT_EQ(parsed.version, 3u);
  EXPECT_EQ(parsed.procedure, 6u);
  for (const OpaqueAuth& auth : {parsed.credential, parsed.verifier}) {
    EXPECT_EQ(auth.flavor, AuthFlavor::kNone);
    EXPECT_TRUE(auth.body.empty());
  }
  for (size_t n = 0; n < out.size(); ++n) {
    std::unique_ptr<uint8_t[]> cut(new uint8_t[n]);
    std::copy(out.begin(), out.begin() + static_cast<long>(n), cut.get());
    EXPECT_EQ(ParseCall({cut.get(), n}, &parsed), 0u) << n;
  }
}

TEST(RpcMessage, ReplyHeadersRoundTrip) {
  const std::vector<ReplyHeader> replies = {
      {.xid = 1},
      {.xid = 2, .accept_status = AcceptStatus::kProgramMismatch, .low = 2, .high = 4},
      {.xid = 3, .accept_status = AcceptStatus::kGarbageArguments},
      {.xid = 4, .denied = true, .low = 2, .high = 2},
      {.xid = 5, .denied = true, .reject_status = RejectStatus::kAuthError, .auth_status = 1}};
  for (const ReplyHeader& reply : replies) {
    std::vector<uint8_t> out(64);
    const size_t length = EmitReply(reply, absl::MakeSpan(out));
    ReplyHeader parsed;
    ASSERT_EQ(ParseReply({out.data(), length}, &parsed), length) << reply.xid;
    EXPECT_EQ(parsed.xid, reply.xid);
    EXPECT_EQ(parsed.denied, reply.denied);
    EXPECT_EQ(parsed.high, reply.high);
    EXPECT_EQ(parsed.auth_status, reply.auth_status);
    for (size_t n = 0; n < length; ++n) EXPECT_EQ(ParseReply({out.data(), n}, &parsed), 0u);
  }
}

TEST(RpcMessage, RejectsTheWrongMessageTypeAndLongCredentials) {
  std::vector<uint8_t> out(64);
  CallHeader call;
  ReplyHeader reply;
  const size_t length = EmitReply({}, absl::MakeSpan(out));
  EXPECT_EQ(ParseCall({out.data(), length}, &call), 0u);
  EmitCall({}, absl::MakeSpan(out));
  EXPECT_EQ(ParseReply(out, &reply), 0u);
  // A credential longer than RFC 5531 section 8.2 allows.
  StoreBe32(&out[28], kMaxAuthBytes + 4);
  out.resize(1000);
  EXPECT_EQ(ParseCall(out, &call), 0u);
}

TEST(RpcMessage, ACallOfAnotherRpcVersionParsesUpToTheVersion) {
  std::vector<uint8_t> out(64);
  EmitCall({.xid = 1, .rpc_version = 3}, absl::MakeSpan(out));
  CallHeader call;
  EXPECT_EQ(ParseCall(out, &call), 12u);
  EXPECT_EQ(call.rpc_version, 3u);
}

// RFC 8166 section 3.4.5.2: with its pad or without.
TEST(Xdr, EligibleItemIsReadFromStreamOrChunk) {
  std::vector<uint8_t> space(64);
  const std::vector<uint8_t> item = {1, 2, 3, 4, 5};
  XdrWriter whole(absl::MakeSpan(space));
  whole.Uint32(9);
  whole.Opaque(item);
  whole.Uint32(10);
  XdrReader in(whole.bytes());
  EXPECT_EQ(in.Uint32(), 9u);
  EXPECT_EQ(in.EligibleOpaque(100), absl::MakeConstSpan(item));
  EXPECT_EQ(in.Uint32(), 10u);
  EXPECT_TRUE(in.AtEnd());

  XdrWriter reduced(absl::MakeSpan(space));
  reduced.Uint32(9);
  const size_t position = reduced.EligibleOpaque(item.size());
  reduced.Uint32(10);
  for (size_t chunk = 0; chunk <= 10; ++chunk) {
    std::vector<uint8_t> bytes = item;
    bytes.resize(chunk);
    const ReducedItem moved{bytes, position};
    XdrReader out(reduced.bytes(), {&moved, 1});
    out.Uint32();
    EXPECT_EQ(out.EligibleOpaque(100).size(), chunk >= 5 && chunk <= 8 ? 5u : 0u) << chunk;
    EXPECT_EQ(out.ok(), chunk >= 5 && chunk <= 8);
  }
  const ReducedItem misplaced{item, position - 4};
  XdrReader elsewhere(reduced.bytes(), {&misplaced, 1});
  elsewhere.Uint32();
  elsewhere.EligibleOpaque(100);
  EXPECT_FALSE(elsewhere.ok());
  const ReducedItem moved{item, position};
  XdrReader unread(reduced.bytes().first(4), {&moved, 1});
  unread.Uint32();
  EXPECT_FALSE(unread.AtEnd());
}

// Three eligible items, of which any may travel in a chunk; positions are of the unreduced stream.
// RFC 8166 section 3.4.5
TEST(Xdr, SeveralItemsAreReadFromStreamOrChunks) {
  const std::vector<uint8_t> items[3] = {{1, 2, 3, 4, 5}, {6}, {7, 8, 9, 10, 11, 12}};
  for (unsigned moved = 0; moved < 8; ++moved) {
    std::vector<uint8_t> space(64);
    XdrWriter out(absl::MakeSpan(space));
    std::vector<ReducedItem> reduced;
    size_t before = 0;
    for (unsigned i = 0; i < 3; ++i) {
      out.Uint32(100 + i);
      if ((moved >> i & 1) == 0) {
        out.Opaque(items[i]);
      } else {
        reduced.push_back({items[i], out.EligibleOpaque(items[i].size()) + before});
        before += XdrRoundUp(items[i].size());
      }
    }
    XdrReader in(out.bytes(), reduced);
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_FALSE(in.AtEnd());
      EXPECT_EQ(in.Uint32(), 100 + i) << moved;
      EXPECT_EQ(in.EligibleOpaque(100), absl::MakeConstSpan(items[i])) << moved;
    }
    EXPECT_TRUE(in.AtEnd()) << moved;
  }
}

// Results have no positions: the Write chunks are used in order. RFC 8166 section 4.3.2.1
TEST(Xdr, ResultsUseWriteChunksInOrder) {
  const std::vector<uint8_t> items[3] = {{1, 2, 3, 4, 5}, {6}, {7, 8}};
  std::vector<uint8_t> space(64);
  XdrWriter out(absl::MakeSpan(space));
  out.EligibleOpaque(items[0].size());
  out.Opaque(items[1]);
  out.EligibleOpaque(items[2].size());
  // RFC 8166 section 4.3.2.3: the second chunk is empty, its item inline.
  const ReducedItem chunks[] = {{items[0]}, {.bytes = {}, .in_stream = true}, {items[2]}, {}};
  XdrReader in(out.bytes(), chunks);
  for (const auto& item : items) EXPECT_EQ(in.EligibleOpaque(100), absl::MakeConstSpan(item));
  EXPECT_TRUE(in.AtEnd());

  // RFC 8166 section 6.1: an item that is not in its chunk.
  const ReducedItem unused[] = {{}, {.bytes = {}, .in_stream = true}, {items[2]}};
  XdrReader wrong(out.bytes(), unused);
  wrong.EligibleOpaque(100);
  EXPECT_FALSE(wrong.ok());
}

TEST(Xdr, ItemsAboveTheirLimitFail) {
  std::vector<uint8_t> space(8);
  XdrWriter out(absl::MakeSpan(space));
  out.Opaque(std::vector<uint8_t>(5));
  EXPECT_FALSE(out.ok());
  XdrWriter exact(absl::MakeSpan(space));
  exact.String("abc");
  EXPECT_TRUE(exact.ok());
  XdrReader in(exact.bytes());
  EXPECT_EQ(in.String(2), "");
  EXPECT_FALSE(in.ok());
  XdrReader again(exact.bytes());
  EXPECT_EQ(again.String(3), "abc");
  EXPECT_TRUE(again.AtEnd());
}

}  // namespace
}  // namespace pollux::oncrpc
