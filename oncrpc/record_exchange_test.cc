#include "oncrpc/record_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "oncrpc/stream_peer_for_test.h"
#include "oncrpc/stream_socket.h"

namespace pollux::oncrpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

// A guard against hanging, not an expectation.
constexpr std::chrono::seconds kTimeout{100};

absl::StatusOr<Bytes> Ask(StreamPeer::Next next, size_t max_reply,
                          Clock::duration timeout = kTimeout) {
  StreamPeer peer(std::move(next));
  const int fd = ConnectTcp(peer.endpoint(), kTimeout.count(), SourcePort::kAny);
  EXPECT_GE(fd, 0);
  auto reply = ExchangeRecord(fd, Bytes{1, 2, 3, 4}, max_reply, Clock::now() + timeout, "the peer");
  close(fd);
  return reply;
}

TEST(RecordExchangeTest, FragmentsOfAReplyAreJoined) {
  const auto reply = Ask([] { return Bytes{0, 0, 0, 2, 7, 8, 0x80, 0, 0, 1, 9}; }, 3);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(*reply, ElementsAre(7, 8, 9));
}

TEST(RecordExchangeTest, AReplyAboveTheLimitIsDataLoss) {
  const auto reply = Ask([] { return Bytes{0, 0, 0, 2, 7, 8, 0x80, 0, 0, 1, 9}; }, 2);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("the peer"));
}

TEST(RecordExchangeTest, AReplyWithoutALastFragmentIsDataLoss) {
  // Fragments of nothing, and of a byte each.
  EXPECT_EQ(Ask([] { return Bytes(4096); }, 1 << 20).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Ask(
                [] {
                  return Bytes{0, 0, 0, 1, 7};
                },
                1 << 20)
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
}

TEST(RecordExchangeTest, AReplyThatTricklesInTimesOut) {
  bool first = true;
  const auto next = [&first] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::exchange(first, false) ? Bytes{0x80, 1, 0, 0} : Bytes{7};
  };
  const auto reply = Ask(next, 1 << 20, std::chrono::milliseconds(300));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("no answer in time"));
}

TEST(RecordExchangeTest, AConnectionClosedBeforeTheReplyIsUnavailable) {
  EXPECT_EQ(Ask([] { return Bytes(); }, 100).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace pollux::oncrpc
