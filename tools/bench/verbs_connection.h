// One reliable connection as in a plain verbs program: a CM identifier, a protection domain, a
// completion queue and a queue pair, created and destroyed on a worker's core.
#ifndef POLLUX_TOOLS_BENCH_VERBS_CONNECTION_H_
#define POLLUX_TOOLS_BENCH_VERBS_CONNECTION_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cm/manager.h"
#include "stack/engine/loop/worker.h"

namespace pollux::tools {

// All functions must be called on the worker's core. The destructor destroys the queue pair and the
// other objects, including registered regions.
class VerbsConnection final : public engine::Poller {
 public:
  // Called from the worker's loop. Its functions may do anything except destroy the connection.
  class User {
   public:
    virtual ~User() = default;
    // The queue pair is in INIT: register memory and post receives now. An error ends the
    // connection. Called again if another peer replaces the first one, after the objects of the
    // first were destroyed.
    virtual absl::Status OnReady() = 0;
    // `private_data`: the whole private data field of the peer's REQ or REP, padding included.
    virtual void OnEstablished(absl::Span<const uint8_t> private_data) = 0;
    virtual void OnCompletion(const ibv_wc& wc) = 0;
    // The last call, made once. OK: DREQ and DREP were exchanged, whichever side began. Otherwise
    // the reason why the connection failed (Unavailable) or has ended.
    virtual void OnEnded(const absl::Status& status) = 0;
  };

  struct Config {
    uint32_t send_queue = 16;     // in work requests
    uint32_t receive_queue = 16;  // in work requests
    uint32_t elements = 1;        // scatter/gather elements per work request
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    cm::ConnectionParam param;
    // Called after OnReady(); returns the private data for the REQ or REP. Null: none.
    std::function<absl::Span<const uint8_t>()> private_data;
    uint32_t resolve_timeout_ms = 10'000;
  };

  // Starts to connect, or listens for one peer at `local` (all zeros: any address). If another peer
  // connects, the first one is probed. If it stays silent for kSilentNs, the new peer replaces it;
  // otherwise the new one is rejected. Worker, manager and user must outlive the connection. Errors
  // are those of the manager and the worker.
  static absl::StatusOr<std::unique_ptr<VerbsConnection>> Connect(engine::Worker* worker,
                                                                  cm::Manager* manager,
                                                                  const SocketAddress& peer,
                                                                  const Config& config, User* user);
  static absl::StatusOr<std::unique_ptr<VerbsConnection>> Listen(engine::Worker* worker,
                                                                 cm::Manager* manager,
                                                                 const SocketAddress& local,
                                                                 const Config& config, User* user);
  // Starts to accept the request of a CONNECT_REQUEST event. Errors are reported by OnEnded(),
  // which may be called before this function returns.
  static std::unique_ptr<VerbsConnection> Accept(engine::Worker* worker, cm::Manager* manager,
                                                 const cm::Event& request, const Config& config,
                                                 User* user);
  ~VerbsConnection() override;
  VerbsConnection(const VerbsConnection&) = delete;
  VerbsConnection& operator=(const VerbsConnection&) = delete;

  // Sends a DREQ. OnEnded() follows when the peer replies, or after kDisconnectTimeoutNs, because a
  // peer that is gone never replies. If the connection is not yet established, it ends at once.
  void Disconnect();
  static constexpr uint64_t kDisconnectTimeoutNs = 12'000'000'000;  // enough for two more DREQs
  // A peer that has been silent for this long is probed by an RDMA WRITE of 0 bytes. If it does not
  // acknowledge it, the connection ends (Unavailable). A Linux program that disconnects and exits
  // sends its DREQ only once; if that is lost, nothing else would show that the peer is gone.
  static constexpr uint64_t kQuietNs = 10'000'000'000;
  // Many round trips, and a short wait for a client that was killed and connects again.
  static constexpr uint64_t kSilentNs = 1'000'000'000;

  // Null before OnReady() is called.
  verbs::QueuePair* qp() { return qp_; }
  absl::StatusOr<memory::MemoryRegion> Register(void* address, uint64_t length, int access);
  absl::Status Deregister(const memory::MemoryRegion& region);
  // Post a work request. The user may use all work request IDs except UINT64_MAX. Internal, with
  // the errno's text, if the queue pair's PostSend() or PostRecv() fails.
  absl::Status Send(ibv_send_wr wr);
  absl::Status Receive(uint64_t wr_id, const ibv_sge& sge);

  bool Poll(uint64_t now_ns) override;

 private:
  VerbsConnection(engine::Worker* worker, cm::Manager* manager, const Config& config, User* user)
      : worker_(worker), manager_(manager), config_(config), user_(user) {}

  cm::EventHandler Handler();
  void OnEvent(const cm::Event& event);
  void OnRequest(const cm::Event& event);
  void Serve(cm::Id* id, const cm::ConnectionParam& offered);
  void Replace();
  void RefuseNext();
  absl::Status MakeQp();
  // Creates the queue pair and binds it to the identifier; continues in OnBound().
  void Bind();
  void OnBound(absl::Status status);
  void End(absl::Status status);
  bool Drain();
  void Take(const ibv_wc& wc);
  void AskWhetherPeerLives();
  void DropPeer();

  engine::Worker* worker_;
  cm::Manager* manager_;
  Config config_;
  User* user_;
  cm::ConnectionParam param_;  // those of config_, reduced to the peer's limits
  cm::Id* listener_ = nullptr;
  cm::Id* id_ = nullptr;
  bool active_ = false;
  bool established_ = false;
  bool ended_ = false;
  uint64_t disconnect_deadline_ns_ = UINT64_MAX;
  uint64_t ask_at_ns_ = UINT64_MAX;
  cm::Id* next_ = nullptr;  // replaces the peer if that one stays silent
  cm::ConnectionParam next_offered_;
  uint64_t replace_at_ns_ = UINT64_MAX;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
  std::vector<memory::MemoryRegion> regions_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_CONNECTION_H_
