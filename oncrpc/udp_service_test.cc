#include "oncrpc/udp_service.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "oncrpc/socket_address.h"
#include "stack/base/address.h"
#include "stack/base/eventually_for_test.h"

namespace pollux::oncrpc {
namespace {

constexpr size_t kMaxDatagram = 1000;
constexpr timeval kDatagramTimeout = {.tv_sec = kHangGuard.count(), .tv_usec = 0};

// Answers a record by itself, backwards; one that begins with 'k' is kept for later, an empty one
// is not answered.
class EchoHandler {
 public:
  RecordHandler handler() {
    return [this](std::vector<uint8_t> record, const CallRoute& ends, ReplySender reply) {
      EXPECT_EQ(ends.max_reply, UdpService::kMaxReply);
      EXPECT_FALSE(ends.connected);
      const std::lock_guard lock(mutex_);
      asked_ = ends.server;
      if (record.empty()) return;
      if (record[0] == 'k') {
        kept_.push_back(std::move(reply));
        return;
      }
      std::reverse(record.begin(), record.end());
      reply.Send(std::move(record));
    };
  }
  // The address that was asked last.
  Gid asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  size_t kept() {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }
  void SendKept(const std::string& text) {
    const std::lock_guard lock(mutex_);
    for (auto& reply : kept_) reply.Send({text.begin(), text.end()});
    kept_.clear();
  }

 private:
  std::mutex mutex_;
  Gid asked_;
  std::deque<ReplySender> kept_;
};

class UdpPeer {
 public:
  UdpPeer(const char* address, uint16_t port) {
    const Gid gid = *ParseAddress(address);
    const Sockaddr to = ToSockaddr({.address = gid, .port = port});
    fd_ = Fd(socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Takes replies from that address alone.
    reached_ = connect(fd_.get(), to.get(), to.length) == 0;
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kDatagramTimeout, sizeof(kDatagramTimeout));
  }
  bool reached() const { return reached_; }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::string Reply() {
    std::string text(1 << 16, '\0');
    const ssize_t size = recv(fd_.get(), text.data(), text.size(), 0);
    EXPECT_GE(size, 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return text;
  }

 private:
  Fd fd_;
  bool reached_ = false;
};

class UdpServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = UdpService::Listen(0, kMaxDatagram, echo_.handler());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  EchoHandler echo_;
  std::unique_ptr<UdpService> server_;
};

TEST_F(UdpServiceTest, RepliesComeFromTheAddressTheCallWasSentTo) {
  // The second is not the one that the kernel would choose.
  for (const char* address : {"127.0.0.1", "127.0.0.2", "::1"}) {
    UdpPeer peer(address, server_->port());
    if (!peer.reached()) continue;  // no IPv6 here
    peer.Send("abc");
    EXPECT_EQ(peer.Reply(), "cba");
    EXPECT_EQ(FormatAddress(echo_.asked()), address);
  }
}

TEST_F(UdpServiceTest, OversizedDatagramsAreDroppedAndCounted) {
  UdpPeer peer("127.0.0.1", server_->port());
  peer.Send(std::string(kMaxDatagram + 1, 'a'));
  peer.Send("");
  peer.Send(std::string(kMaxDatagram, 'a'));
  EXPECT_EQ(peer.Reply(), std::string(kMaxDatagram, 'a'));
  EXPECT_EQ(server_->dropped(), 1u);
}

TEST_F(UdpServiceTest, DatagramsAboveMaxUnansweredAreDropped) {
  UdpPeer waiting("127.0.0.1", server_->port()), other("127.0.0.1", server_->port());
  // One by one: the socket has room for fewer.
  const auto keep = [&](size_t number) {
    waiting.Send({'k', static_cast<char>(number >> 8), static_cast<char>(number), 'p'});
    EXPECT_TRUE(Eventually([&] { return echo_.kept() == number + 1; }));
  };
  for (size_t i = 0; i < UdpService::kMaxUnanswered - 1; ++i) keep(i);
  other.Send("abc");
  EXPECT_EQ(other.Reply(), "cba");
  keep(UdpService::kMaxUnanswered - 1);
  other.Send("dropped");
  EXPECT_TRUE(Eventually([&] { return server_->dropped() == 1; }));
  echo_.SendKept("late");
  EXPECT_EQ(waiting.Reply(), "late");
  other.Send("def");
  EXPECT_EQ(other.Reply(), "fed");
}

TEST_F(UdpServiceTest, ARetransmittedCallIsKeptOnce) {
  UdpPeer peer("127.0.0.1", server_->port()), other("127.0.0.1", server_->port());
  for (int again = 0; again < 3; ++again) peer.Send("keep");
  EXPECT_TRUE(Eventually([&] { return server_->dropped() == 2; }));
  // As another's XID, and after its reply.
  other.Send("keep");
  EXPECT_TRUE(Eventually([&] { return echo_.kept() == 2; }));
  echo_.SendKept("late");
  EXPECT_EQ(peer.Reply(), "late");
  peer.Send("keep");
  EXPECT_TRUE(Eventually([&] { return echo_.kept() == 1; }));
  EXPECT_EQ(server_->dropped(), 2u);
}

TEST_F(UdpServiceTest, ListenOnAPortInUseIsAlreadyExists) {
  EXPECT_EQ(UdpService::Listen(server_->port(), kMaxDatagram, echo_.handler()).status().code(),
            absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace pollux::oncrpc
