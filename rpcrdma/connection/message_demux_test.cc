#include "rpcrdma/connection/message_demux.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "oncrpc/rpc_message.h"
#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kXid = 7;
constexpr Segment kSegment = {.handle = 1, .length = 4, .offset = 0};

enum class Payload { kNone, kCall, kReply };

std::vector<uint8_t> Message(Proc proc, Payload payload, uint32_t reads = 0, uint32_t writes = 0,
                             bool reply_chunk = false) {
  Header header;
  header.xid = kXid;
  header.proc = proc;
  const std::vector<Segment> segments(3, kSegment);
  for (uint32_t i = 0; i < reads; ++i) header.chunks.AddRead(4 * i, kSegment);
  for (uint32_t i = 0; i < writes; ++i) {
    header.chunks.AddWriteChunk(absl::MakeConstSpan(segments).first(i % 4));
  }
  if (reply_chunk) header.chunks.SetReply(segments);
  std::vector<uint8_t> message(HeaderBytes(header) + 100);
  const size_t at = EmitHeader(header, absl::MakeSpan(message));
  const absl::Span<uint8_t> rest = absl::MakeSpan(message).subspan(at);
  size_t bytes = 0;
  if (payload == Payload::kCall) bytes = oncrpc::EmitCall({.xid = kXid}, rest);
  if (payload == Payload::kReply) bytes = oncrpc::EmitReply({.xid = kXid}, rest);
  message.resize(at + bytes);
  return message;
}

std::optional<Direction> DirectionOf(const std::vector<uint8_t>& message) {
  ReceivedHeader header;
  header.status = ParseHeader(message, &header.header, &header.bytes);
  return DirectionOf(
      Connection::Arrival{.message = message, .plain = IsPlainMessage(message), .header = &header});
}
void Expect(const std::vector<uint8_t>& message, Direction direction) {
  EXPECT_EQ(DirectionOf(message), direction);
}
void ExpectNone(const std::vector<uint8_t>& message) {
  EXPECT_EQ(DirectionOf(message), std::nullopt);
}

// RFC 8167 section 4.1
TEST(DirectionOf, TheCallDirectionFieldDeterminesTheDirection) {
  for (uint32_t chunks = 0; chunks < 50; ++chunks) {
    const uint32_t reads = chunks % 5, writes = chunks / 10;
    const bool reply_chunk = chunks / 5 % 2 == 1;
    Expect(Message(Proc::kMsg, Payload::kCall, reads, writes, reply_chunk), Direction::kCall);
    Expect(Message(Proc::kMsg, Payload::kReply, reads, writes, reply_chunk), Direction::kReply);
  }
}

TEST(DirectionOf, ChunksGiveTheDirectionOfAHeaderWithoutPayload) {
  Expect(Message(Proc::kNomsg, Payload::kNone, 1, 0, true), Direction::kCall);
  Expect(Message(Proc::kNomsg, Payload::kNone, 0, 1, true), Direction::kReply);
  ExpectNone(Message(Proc::kNomsg, Payload::kNone, 0, 1));
  Expect(Message(Proc::kError, Payload::kNone), Direction::kReply);
  ExpectNone(Message(Proc::kDone, Payload::kNone));
  ExpectNone(Message(Proc::kMsgp, Payload::kCall));
  ExpectNone(Message(Proc::kMsg, Payload::kNone));
}

TEST(DirectionOf, MalformedMessagesHaveNoDirection) {
  std::vector<uint8_t> message = Message(Proc::kMsg, Payload::kCall, 0, 3, true);
  message[7] = 2;  // another version
  ExpectNone(message);
  message[7] = 1;
  // Cut off anywhere, and with counts that lead anywhere.
  for (size_t bytes = 0; bytes < message.size(); ++bytes) {
    const std::vector<uint8_t> cut(message.begin(), message.begin() + bytes);
    DirectionOf(cut);
    for (size_t at = 16; at < bytes; ++at) {
      std::vector<uint8_t> odd = cut;
      odd[at] = 0xFF;
      DirectionOf(odd);
    }
  }
  ExpectNone({});
  std::vector<uint8_t> neither = Message(Proc::kMsg, Payload::kCall);
  neither[kMinHeaderBytes + 7] = 2;
  ExpectNone(neither);
}

struct Recorder : public Connection::Role {
  void OnMessage(const Connection::Arrival& arrival) override {
    messages.push_back(arrival.receive);
    directed = arrival.is_directed;
  }
  bool Expects(uint32_t xid) const override { return xid == expected; }
  void OnSent(uint32_t cookie) override { sent.push_back(cookie); }
  void OnFailed(uint32_t cookie, ibv_wc_status) override { failed.push_back(cookie); }
  std::vector<uint32_t> messages, sent, failed;
  uint32_t expected = 0;
  bool directed = false;
};

TEST(MessageDemux, CallsAndRepliesReachTheirOwnHandlers) {
  Recorder calls, replies;
  MessageDemux demux(Direction::kReply, &calls, {.first = 4, .count = 2}, &replies);
  const auto call = Message(Proc::kMsg, Payload::kCall),
             reply = Message(Proc::kMsg, Payload::kReply);
  demux.OnMessage({.receive = 1, .message = call, .plain = true});
  demux.OnMessage({.receive = 2, .message = reply, .plain = true});
  EXPECT_EQ(calls.messages, std::vector<uint32_t>{1});
  EXPECT_EQ(replies.messages, std::vector<uint32_t>{2});
  for (uint32_t cookie : {0, 3, 4, 5, 6}) demux.OnSent(cookie);
  EXPECT_EQ(calls.sent, (std::vector<uint32_t>{4, 5}));
  EXPECT_EQ(replies.sent, (std::vector<uint32_t>{0, 3, 6}));
  demux.OnFailed(5, IBV_WC_REM_ACCESS_ERR);
  demux.OnFailed(6, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(calls.failed, std::vector<uint32_t>{5});
  EXPECT_EQ(replies.failed, std::vector<uint32_t>{6});
}

// RFC 8167 section 4.1: whose credit value means nothing.
TEST(MessageDemux, AMessageWithoutDirectionIsACallUnlessItsXidIsOutstanding) {
  const auto odd = Message(Proc::kMsgp, Payload::kCall);
  ReceivedHeader header;
  header.status = ParseHeader(odd, &header.header, &header.bytes);
  for (const Direction forward : {Direction::kCall, Direction::kReply}) {
    for (const bool awaited : {false, true}) {
      Recorder calls, replies;
      replies.expected = awaited ? kXid : kXid + 1;
      MessageDemux demux(forward, &calls, {.first = 4, .count = 2}, &replies);
      demux.OnMessage({.receive = 1, .message = odd, .header = &header});
      Recorder& taken = forward == Direction::kReply && awaited ? replies : calls;
      EXPECT_EQ(taken.messages, std::vector<uint32_t>{1});
      EXPECT_FALSE(taken.directed);
    }
  }
}

}  // namespace
}  // namespace pollux::rpcrdma
