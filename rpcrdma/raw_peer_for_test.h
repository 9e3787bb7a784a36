// A peer that may violate the protocol: a queue pair connected by CM that sends the messages which
// the test supplies.
#ifndef POLLUX_RPCRDMA_RAW_PEER_FOR_TEST_H_
#define POLLUX_RPCRDMA_RAW_PEER_FOR_TEST_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "cm/manager.h"
#include "oncrpc/rpc_message.h"
#include "rpcrdma/wire/header.h"
#include "stack/engine/loop/worker.h"

namespace pollux::rpcrdma {

// Ends the process on any error of its own, because such an error is a fault of the test.
class RawPeer : public engine::Poller {
 public:
  static constexpr uint32_t kReceives = 64;
  static constexpr uint32_t kMessageBytes = 8192;
  static constexpr uint32_t kSendQueue = 512;
  static constexpr size_t kMemoryBytes = 256 * 1024;  // for chunks

  using Message = std::vector<uint8_t>;

  // The arguments must outlive this object.
  RawPeer(engine::Worker* worker, cm::Manager* manager);
  ~RawPeer() override;
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  // Connects as a client.
  void Connect(const SocketAddress& server);
  // Accepts one connection as a server.
  void Listen(uint16_t port);
  void Disconnect();
  bool connected() const { return connected_; }
  // The connection has ended, or a work request has failed.
  bool ended() const { return ended_; }

  // Set it before Connect() or Listen(): the wait time in RNR NAKs, a code as in ibv_qp_attr.
  uint8_t min_rnr_timer = 12;
  bool remote_invalidation = false;  // announced in the private data
  // The private data of CM's message; by default that of RFC 8797, with kMessageBytes in both
  // directions.
  std::optional<std::vector<uint8_t>> private_data;
  // Whether a receive is posted again when its message has been added to `received`.
  bool repost = true;
  // Posts the receives that were not posted again, and the later ones.
  void Repost();
  std::vector<Message> received;
  // The statuses of SENDs, READs and WRITEs, in order.
  std::vector<ibv_wc_status> sent;
  // `invalidate`: a key of the peer to invalidate; 0: none.
  void Send(absl::Span<const uint8_t> message, uint32_t invalidate = 0);
  // Use the local memory at `offset`.
  void Read(size_t offset, const Segment& from);
  void Write(size_t offset, const Segment& to);
  // An RDMA WRITE with immediate data, which uses one of the peer's receives.
  void WriteWithImmediate(size_t offset, const Segment& to);

  // Registered for all kinds of access.
  uint8_t* memory() { return memory_.data(); }
  Segment SegmentAt(size_t offset, uint32_t length) const {
    return {region_.key, length, region_.iova + offset};
  }
  // The same with a key that was registered for it and deregistered.
  Segment ExpiredSegment(size_t offset, uint32_t length);
  verbs::QueuePair* qp() { return qp_; }

  bool Poll(uint64_t now_ns) override;

 private:
  void OnEvent(const cm::Event& event);
  void Bind(cm::Id* id, bool accept);
  void PostReceive(uint32_t index);
  void PostRdma(ibv_wr_opcode opcode, size_t offset, const Segment& remote);

  engine::Worker* worker_;
  cm::Manager* manager_;
  cm::Id* listener_ = nullptr;
  cm::Id* id_ = nullptr;
  bool connected_ = false;
  bool ended_ = false;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kMemoryBytes);
  std::vector<uint8_t> receive_memory_ = std::vector<uint8_t>(kReceives * kMessageBytes);
  std::vector<uint8_t> send_memory_ = std::vector<uint8_t>(kSendQueue * kMessageBytes);
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
  memory::MemoryRegion region_, receive_region_, send_region_;
  uint32_t next_send_ = 0;
  std::vector<uint32_t> withheld_;  // receives that were not posted again
};

// A message with this header and payload.
RawPeer::Message MessageOf(const Header& header, absl::Span<const uint8_t> payload = {});
// An RPC call with these arguments.
RawPeer::Message CallOf(const oncrpc::CallHeader& call, absl::Span<const uint8_t> arguments = {});
// A successful RPC reply.
RawPeer::Message ReplyOf(uint32_t xid, absl::Span<const uint8_t> results = {});

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RAW_PEER_FOR_TEST_H_
