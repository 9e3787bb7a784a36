#include "oncrpc/tcp_service.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stack/base/address.h"
#include "stack/base/byte_order.h"
#include "stack/base/memory_reserve.h"

namespace {
std::atomic<uint32_t> accepts = 0;
}

extern "C" int accept4(int listener, sockaddr* peer, socklen_t* bytes, int flags) {
  ++accepts;
  return static_cast<int>(syscall(SYS_accept4, listener, peer, bytes, flags));
}

namespace pollux::oncrpc {
namespace {

constexpr size_t kMaxTcpRecord = 1000;
constexpr size_t kMaxReply = 1 << 20;
constexpr uint32_t kLast = 1u << 31;
// A guard against hanging, not an expectation.
constexpr timeval kReplyTimeout = {.tv_sec = 100, .tv_usec = 0};

// Answers a record by itself, backwards; one that begins with 'x' by a large reply, an empty one
// not at all.
void EchoRecord(std::vector<uint8_t> record, const CallRoute& ends, ReplySender reply) {
  EXPECT_THAT(FormatAddress(ends.client), testing::AnyOf("127.0.0.1", "127.0.0.2"));
  EXPECT_EQ(FormatAddress(ends.server), "127.0.0.1");
  EXPECT_LE(record.size(), kMaxTcpRecord);
  if (record.empty()) return;
  if (record[0] == 'x') return reply.Send(std::vector<uint8_t>(kMaxReply, 'y'));
  std::reverse(record.begin(), record.end());
  reply.Send(std::move(record));
}

class TcpPeer {
 public:
  TcpPeer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit TcpPeer(uint16_t port, uint32_t from = INADDR_LOOPBACK) : TcpPeer() {
    Connect(port, from);
  }
  void Connect(uint16_t port, uint32_t from = INADDR_LOOPBACK) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(from);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kReplyTimeout, sizeof(kReplyTimeout));
  }
  // The kernel receives no more before Reply() is called.
  void LimitReceiveBuffer() {
    constexpr int kBytes = 64 * 1024;
    EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &kBytes, sizeof(kBytes)), 0);
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string Fragment(const std::string& text, uint32_t mark = kLast) {
    uint8_t bytes[4];
    StoreBe32(bytes, mark | static_cast<uint32_t>(text.size()));
    return std::string(bytes, bytes + 4) + text;
  }
  // The next reply; "closed" when there will be none.
  std::string Reply() {
    uint8_t mark[4];
    if (recv(fd_.get(), mark, 4, MSG_WAITALL) != 4) return "closed";
    const uint32_t size = LoadBe32(mark);
    EXPECT_NE(size & kLast, 0u);
    std::string text(size & ~kLast, '\0');
    EXPECT_EQ(recv(fd_.get(), text.data(), text.size(), MSG_WAITALL),
              static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  Fd fd_;
};

class TcpServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = TcpService::Listen(0, kMaxTcpRecord, EchoRecord);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<TcpService> server_;
};

TEST_F(TcpServiceTest, RecordsArriveWholeInFragmentsOrPipelined) {
  TcpPeer peer(server_->port());
  peer.Send(TcpPeer::Fragment("abc"));
  EXPECT_EQ(peer.Reply(), "cba");
  peer.Send(TcpPeer::Fragment("ab", 0) + TcpPeer::Fragment("", 0));
  peer.Send(TcpPeer::Fragment("cd") + TcpPeer::Fragment("next").substr(0, 6));
  EXPECT_EQ(peer.Reply(), "dcba");
  peer.Send("xt" + TcpPeer::Fragment("last"));
  EXPECT_EQ(peer.Reply(), "txen");
  EXPECT_EQ(peer.Reply(), "tsal");
}

TEST_F(TcpServiceTest, RecordsAfterLargeRepliesAreAnswered) {
  TcpPeer peer(server_->port());
  peer.Send(TcpPeer::Fragment("x") + TcpPeer::Fragment("x") + TcpPeer::Fragment("abc"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(peer.Reply(), std::string(kMaxReply, 'y'));
  EXPECT_EQ(peer.Reply(), "cba");
}

TEST_F(TcpServiceTest, OversizedAndEmptyRecordsCloseTheConnection) {
  TcpPeer largest(server_->port());
  largest.Send(TcpPeer::Fragment(std::string(kMaxTcpRecord, 'a')));
  EXPECT_EQ(largest.Reply(), std::string(kMaxTcpRecord, 'a'));
  TcpPeer larger(server_->port());
  larger.Send(TcpPeer::Fragment(std::string(kMaxTcpRecord, 'a'), 0) + TcpPeer::Fragment("b"));
  EXPECT_EQ(larger.Reply(), "closed");
  TcpPeer huge(server_->port());
  huge.Send("\xff\xff\xff\xff");
  EXPECT_EQ(huge.Reply(), "closed");
  TcpPeer empty(server_->port());
  empty.Send(TcpPeer::Fragment(""));
  EXPECT_EQ(empty.Reply(), "closed");
  largest.Send(TcpPeer::Fragment("still there"));
  EXPECT_EQ(largest.Reply(), "ereht llits");
}

TEST_F(TcpServiceTest, EndlessEmptyFragmentsCloseTheConnection) {
  TcpPeer peer(server_->port());
  std::string many;
  for (size_t i = 0; i < kMaxTcpRecord; ++i) many += TcpPeer::Fragment("", 0);
  peer.Send(many);
  EXPECT_EQ(peer.Reply(), "closed");
}

TEST_F(TcpServiceTest, AConnectionAboveTheLimitClosesTheLongestIdle) {
  std::vector<std::unique_ptr<TcpPeer>> peers;
  for (size_t i = 0; i <= TcpService::kMaxConnections; ++i) {
    peers.push_back(std::make_unique<TcpPeer>(server_->port()));
    peers.back()->Send(TcpPeer::Fragment("abc"));
    EXPECT_EQ(peers.back()->Reply(), "cba");
  }
  EXPECT_EQ(peers.front()->Reply(), "closed");
  peers.back()->Send(TcpPeer::Fragment("abc"));
  EXPECT_EQ(peers.back()->Reply(), "cba");
}

TEST_F(TcpServiceTest, AtTheLimitANewConnectionClosesOneOfTheAddressWithTheMost) {
  TcpPeer other(server_->port(), INADDR_LOOPBACK + 1);
  other.Send(TcpPeer::Fragment("abc"));
  EXPECT_EQ(other.Reply(), "cba");
  std::vector<std::unique_ptr<TcpPeer>> peers;
  for (size_t i = 0; i < TcpService::kMaxConnections; ++i) {
    peers.push_back(std::make_unique<TcpPeer>(server_->port()));
    peers.back()->Send(TcpPeer::Fragment("abc"));
    EXPECT_EQ(peers.back()->Reply(), "cba");
  }
  EXPECT_EQ(peers.front()->Reply(), "closed");
  other.Send(TcpPeer::Fragment("def"));
  EXPECT_EQ(other.Reply(), "fed");
}

TEST_F(TcpServiceTest, ShortMemoryClosesNewConnections) {
  ASSERT_TRUE(MemoryReserve::Fill());
  TcpPeer before(server_->port());
  before.Send(TcpPeer::Fragment("abc"));
  EXPECT_EQ(before.Reply(), "cba");
  {
    const MemoryReserve::ShortageForTest shortage;
    ASSERT_TRUE(MemoryReserve::GiveUpPiece());
    EXPECT_EQ(TcpPeer(server_->port()).Reply(), "closed");
    before.Send(TcpPeer::Fragment("abc"));
    EXPECT_EQ(before.Reply(), "cba");
  }
  TcpPeer after(server_->port());
  after.Send(TcpPeer::Fragment("abc"));
  EXPECT_EQ(after.Reply(), "cba");
}

// Keeps the replies, for the test to send.
class Deferring {
 public:
  RecordHandler handler() {
    return [this](std::vector<uint8_t> record, const CallRoute&, ReplySender reply) {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back(std::string(record.begin(), record.end()), std::move(reply));
      came_.notify_one();
    };
  }
  // The next record, and the way back of its reply.
  std::pair<std::string, ReplySender> Next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(came_.wait_for(lock, std::chrono::seconds(kReplyTimeout.tv_sec),
                               [this] { return !waiting_.empty(); }));
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    return next;
  }
  size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::pair<std::string, ReplySender>> waiting_;
};

std::vector<uint8_t> BytesOf(const std::string& text) { return {text.begin(), text.end()}; }

TEST(TcpServiceRepliesTest, AreSentWhenReadyInAnyOrder) {
  Deferring deferring;
  auto server = TcpService::Listen(0, kMaxTcpRecord, deferring.handler());
  ASSERT_TRUE(server.ok()) << server.status();
  TcpPeer peer((*server)->port()), other((*server)->port());
  peer.Send(TcpPeer::Fragment("first") + TcpPeer::Fragment("second"));
  auto first = deferring.Next(), second = deferring.Next();
  other.Send(TcpPeer::Fragment("third"));
  auto third = deferring.Next();
  EXPECT_EQ(third.first, "third");
  third.second.Send(BytesOf("3"));
  EXPECT_EQ(other.Reply(), "3");
  second.second.Send(BytesOf("2"));
  EXPECT_EQ(peer.Reply(), "2");
  first.second.Send(BytesOf("1"));
  EXPECT_EQ(peer.Reply(), "1");
  // Whose reply is given up loses the connection, as whose client has gone loses the reply.
  peer.Send(TcpPeer::Fragment("forgotten"));
  { const auto dropped = deferring.Next(); }
  EXPECT_EQ(peer.Reply(), "closed");
  other.Send(TcpPeer::Fragment("late"));
  auto late = deferring.Next();
  server->reset();
  late.second.Send(BytesOf("late"));
  EXPECT_EQ(other.Reply(), "closed");
}

TEST(TcpServiceRepliesTest, UnansweredCallsPerConnectionAreBounded) {
  Deferring deferring;
  auto server = TcpService::Listen(0, kMaxTcpRecord, deferring.handler());
  ASSERT_TRUE(server.ok()) << server.status();
  TcpPeer peer((*server)->port()), other((*server)->port());
  for (uint32_t i = 0; i <= TcpService::kMaxUnanswered; ++i) peer.Send(TcpPeer::Fragment("r"));
  std::vector<ReplySender> replies;
  for (uint32_t i = 0; i < TcpService::kMaxUnanswered; ++i) {
    replies.push_back(deferring.Next().second);
  }
  // The server has been through all that had come by then.
  other.Send(TcpPeer::Fragment("other"));
  EXPECT_EQ(deferring.Next().first, "other");
  EXPECT_EQ(deferring.waiting(), 0u);
  replies.front().Send(BytesOf("a"));
  EXPECT_EQ(peer.Reply(), "a");
  deferring.Next().second.Send(BytesOf("b"));
  EXPECT_EQ(peer.Reply(), "b");
}

// A client may send calls and read no replies.
TEST(TcpServiceRepliesTest, UnsentRepliesPerConnectionAreBounded) {
  constexpr size_t kLarge = 4 << 20;
  std::atomic<uint32_t> calls = 0;
  auto server = TcpService::Listen(
      0, kMaxTcpRecord, [&](std::vector<uint8_t> record, const CallRoute&, ReplySender reply) {
        if (record[0] != 'x') return reply.Send(std::move(record));
        ++calls;
        reply.Send(std::vector<uint8_t>(kLarge, 'y'));
      });
  ASSERT_TRUE(server.ok()) << server.status();
  TcpPeer peer((*server)->port()), other((*server)->port());
  peer.LimitReceiveBuffer();
  std::string many;
  for (uint32_t i = 0; i < TcpService::kMaxUnanswered; ++i) many += TcpPeer::Fragment("x");
  peer.Send(many);
  // The server takes everything that has arrived before it answers.
  for (int i = 0; i < 20; ++i) {
    other.Send(TcpPeer::Fragment("other"));
    EXPECT_EQ(other.Reply(), "other");
  }
  EXPECT_LT(calls, TcpService::kMaxUnanswered);
  for (uint32_t i = 0; i < TcpService::kMaxUnanswered; ++i) {
    ASSERT_EQ(peer.Reply(), std::string(kLarge, 'y'));
  }
  peer.Send(TcpPeer::Fragment("last"));
  EXPECT_EQ(peer.Reply(), "last");
}

TEST_F(TcpServiceTest, WithoutDescriptorsTheListenerIsSeldomTried) {
  TcpPeer peer;
  // The lowest that is free.
  const auto limit = static_cast<rlim_t>(Fd(dup(STDERR_FILENO)).get());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = limit, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto begin = std::chrono::steady_clock::now();
  accepts = 0;
  peer.Connect(server_->port());
  while (accepts == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const uint32_t tried = accepts;
  const auto passed = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  // Once a second, however busy the machine is.
  EXPECT_LE(tried, 2 + std::chrono::duration_cast<std::chrono::seconds>(passed).count());
  peer.Send(TcpPeer::Fragment("abc"));
  EXPECT_EQ(peer.Reply(), "cba");
}

TEST_F(TcpServiceTest, ListenOnAPortInUseIsAlreadyExists) {
  const auto second = TcpService::Listen(server_->port(), kMaxTcpRecord, EchoRecord);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
}

}  // namespace
}  // namespace pollux::oncrpc
