// A server with two clients: one that follows the protocol and one that violates it.
#ifndef POLLUX_RPCRDMA_HOSTILE_CLIENT_FOR_TEST_H_
#define POLLUX_RPCRDMA_HOSTILE_CLIENT_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rpcrdma/mirror_for_test.h"
#include "rpcrdma/raw_peer_for_test.h"

namespace pollux::rpcrdma {

inline constexpr uint32_t kXid = 0x600DF00D;
inline constexpr size_t kCallBytes = 40;  // an RPC call header without credentials
inline constexpr Segment kForeign = {.handle = 0x1234567, .length = 4096, .offset = 0x10000};

inline Header HeaderOf(Proc proc = Proc::kMsg) {
  Header header;
  header.xid = kXid;
  header.credits = 8;
  header.proc = proc;
  return header;
}
inline RawPeer::Message MirrorCall(uint32_t procedure, absl::Span<const uint8_t> arguments = {}) {
  return CallOf({.xid = kXid, .program = kMirrorProgram, .version = 1, .procedure = procedure},
                arguments);
}
inline uint32_t WordAt(absl::Span<const uint8_t> message, size_t index) {
  return LoadBe32(&message[4 * index]);
}
// Returns the message with `xid` in both headers.
inline RawPeer::Message WithXid(RawPeer::Message message, uint32_t xid) {
  for (size_t at = 0; at + 4 <= message.size(); at += 4) {
    if (LoadBe32(&message[at]) == kXid) StoreBe32(&message[at], xid);
  }
  return message;
}
inline std::vector<uint8_t> Words(std::initializer_list<uint32_t> words) {
  std::vector<uint8_t> bytes(4 * words.size());
  size_t at = 0;
  for (uint32_t word : words) StoreBe32(&bytes[4 * at++], word);
  return bytes;
}

class HostileClientTest : public MirrorTest {
 protected:
  // Connects both clients; `hostile` is the one that violates the protocol.
  void StartHostile(const ServerConfig& config = {}) {
    StartSimulation();
    StartServer(config);
    StartClient();
    ConnectClient();
    hostile = NewPeer();
  }
  std::unique_ptr<RawPeer> NewPeer(std::optional<std::vector<uint8_t>> private_data = {}) {
    auto peer = std::make_unique<RawPeer>(&nodes[0]->worker(), managers[0].get());
    peer->private_data = std::move(private_data);
    peer->Connect({nodes[1]->gid(), kTestPort});
    EXPECT_TRUE(RunUntil([&] { return peer->connected(); }));
    return peer;
  }
  void TearDown() override {
    hostile.reset();
    MirrorTest::TearDown();
  }
  // Sends `message` and returns the reply; empty if there is none.
  RawPeer::Message Ask(absl::Span<const uint8_t> message) {
    hostile->received.clear();
    hostile->Send(message);
    if (!RunUntil([this] { return !hostile->received.empty() || hostile->ended(); })) return {};
    return hostile->received.empty() ? RawPeer::Message() : hostile->received.front();
  }
  void ExpectServed() {
    const RawPeer::Message reply = Ask(MessageOf(HeaderOf(), MirrorCall(kNull)));
    ASSERT_EQ(reply.size(), kMinHeaderBytes + oncrpc::kReplyHeaderBytes);
    EXPECT_EQ(WordAt(reply, 0), kXid);
    EXPECT_EQ(WordAt(reply, 3), static_cast<uint32_t>(Proc::kMsg));
  }
  void ExpectTheOtherClientIsServed() {
    EXPECT_FALSE(ended.has_value());
    Echo(8000);
    EXPECT_TRUE(Put(50'000).ok());
    EXPECT_TRUE(Get(50'000, 50'000).ok());
  }
  const Counters& counters() { return server->server->counters(); }

  std::unique_ptr<RawPeer> hostile;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_HOSTILE_CLIENT_FOR_TEST_H_
