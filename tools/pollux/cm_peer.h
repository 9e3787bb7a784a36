// One end of what rdma-core's ucmatose and udaddy do: many connections at once, messages both ways
// on each, and their end. Interoperates with the programs of those names.
#ifndef POLLUX_TOOLS_POLLUX_CM_PEER_H_
#define POLLUX_TOOLS_POLLUX_CM_PEER_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "stack/engine/loop/worker.h"

namespace pollux::tools {

// Over RDMA_PS_TCP and RDMA_PS_IB the server sends first, the client replies, and the server
// disconnects. Over RDMA_PS_UDP the client sends first, naming its queue pair in the immediate
// data; nothing is disconnected, and what is lost stays lost. Every call on the worker's core.
class CmPeer final : public engine::Poller {
 public:
  static constexpr uint32_t kMaxConnections = 4096;
  static constexpr uint32_t kMaxMessages = 4096;  // of a connection: all are received at once
  static constexpr uint32_t kMaxBytes = 1 << 20;  // of a message

  struct Options {
    std::optional<SocketAddress> server;  // whom to connect to; nothing: be the server
    SocketAddress local;                  // to listen at; the port is the server's
    rdma_port_space port_space = RDMA_PS_TCP;
    uint32_t connections = 1;
    uint32_t messages = 10;  // each way, of each connection
    uint32_t bytes = 100;    // of a message
    std::optional<uint8_t> type_of_service;
    // No event, no message for so long, once there was one, or for a client: it gives up.
    uint64_t idle_ns = 20'000'000'000;
    // Given words on each step; null: no one is.
    absl::AnyInvocable<void(const std::string& words)> on_step;
    // Once. Unavailable when a connection did not come about or ended early; DeadlineExceeded after
    // idle_ns; Internal when a work request failed; errors of the manager and of the worker.
    absl::AnyInvocable<void(const absl::Status& status)> on_done;
  };
  struct Totals {
    uint32_t connected = 0;
    uint32_t disconnected = 0;
    uint64_t messages_sent = 0;
    uint64_t messages_received = 0;
  };

  // Begins. Worker and manager outlive it.
  static absl::StatusOr<std::unique_ptr<CmPeer>> Start(engine::Worker* worker, cm::Manager* manager,
                                                       Options options);
  ~CmPeer() override;
  CmPeer(const CmPeer&) = delete;
  CmPeer& operator=(const CmPeer&) = delete;

  const Totals& totals() const { return totals_; }

 private:
  enum class Phase : uint8_t { kConnecting, kExchanging, kReplying, kDisconnecting, kDone };
  struct Channel;

  CmPeer(engine::Worker* worker, cm::Manager* manager, Options options);

  bool Poll(uint64_t now_ns) override;
  absl::Status Begin();
  bool is_ud() const { return options_.port_space == RDMA_PS_UDP; }
  bool is_client() const { return options_.server.has_value(); }
  bool sends_first() const { return is_client() == is_ud(); }

  void OnEvent(const cm::Event& event);
  void OnRequest(const cm::Event& event);
  absl::Status OnProgress(Channel& channel, const cm::Event& event);
  absl::Status MakeQp(Channel& channel);
  void Bind(Channel& channel);
  absl::Status OnBound(Channel& channel);
  absl::Status PostReceives(Channel& channel);
  absl::Status PostSends(Channel& channel);
  absl::Status MakeReplyAddress(Channel& channel, const ibv_wc& wc);
  void SetConnected(Channel& channel);
  bool PollChannel(Channel& channel);
  absl::Status OnCompletion(Channel& channel, const ibv_wc& wc);
  void Advance();
  bool AllReceived() const;
  bool AllSent() const;
  bool HasLingered() const;  // a reliable server, after the last message
  void PostAll();
  void BeginToEnd();
  void Step(const std::string& words);
  void Done(absl::Status status);
  void TakeDown(Channel& channel);

  engine::Worker* worker_;
  cm::Manager* manager_;
  Options options_;
  Totals totals_;
  Phase phase_ = Phase::kConnecting;
  cm::Id* listener_ = nullptr;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::optional<uint64_t> idle_since_ns_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_CM_PEER_H_
