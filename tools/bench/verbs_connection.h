// One reliable connection as a plain verbs program has it: a CM identifier, a protection domain, a
// completion queue and a queue pair, made and taken down on a worker's core.
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

// Every call on the worker's core. The queue pair and what hangs on it go with it, registered
// regions first.
class VerbsConnection final : public engine::Poller {
 public:
  // Called from the worker's loop. A call may do anything but destroy the connection.
  class User {
   public:
    virtual ~User() = default;
    // The queue pair is in INIT: the time to register memory and post receives. An error ends the
    // connection. Again, with all of the peer before gone, when another one has taken its place.
    virtual absl::Status OnReady() = 0;
    // Of the peer's private data the space in REQ or REP, padding included.
    virtual void OnEstablished(absl::Span<const uint8_t> private_data) = 0;
    virtual void OnCompletion(const ibv_wc& wc) = 0;
    // Once, and nothing after it. OK: DREQ and DREP were exchanged, whoever began. Else why there
    // is no connection (Unavailable), or no more of it.
    virtual void OnEnded(const absl::Status& status) = 0;
  };

  struct Config {
    uint32_t send_queue = 16;     // work requests
    uint32_t receive_queue = 16;  // work requests
    uint32_t elements = 1;        // scatter/gather elements of a work request
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    cm::ConnectionParam param;
    // Asked after OnReady() for what REQ or REP takes along; null: nothing.
    std::function<absl::Span<const uint8_t>()> private_data;
    uint32_t resolve_timeout_ms = 10'000;
  };

  // Begins to connect, or listens for one peer at `local` (all zeros: any address). One that comes
  // while there is another takes its place if that one stays silent for kSilentNs though it is
  // asked whether it lives, and is rejected if not. Worker, manager and user outlive the
  // connection. Errors as the manager's and the worker's.
  static absl::StatusOr<std::unique_ptr<VerbsConnection>> Connect(engine::Worker* worker,
                                                                  cm::Manager* manager,
                                                                  const SocketAddress& peer,
                                                                  const Config& config, User* user);
  static absl::StatusOr<std::unique_ptr<VerbsConnection>> Listen(engine::Worker* worker,
                                                                 cm::Manager* manager,
                                                                 const SocketAddress& local,
                                                                 const Config& config, User* user);
  // Begins to accept what CONNECT_REQUEST has told of. What fails of it is told by OnEnded(), which
  // may come before this has returned.
  static std::unique_ptr<VerbsConnection> Accept(engine::Worker* worker, cm::Manager* manager,
                                                 const cm::Event& request, const Config& config,
                                                 User* user);
  ~VerbsConnection() override;
  VerbsConnection(const VerbsConnection&) = delete;
  VerbsConnection& operator=(const VerbsConnection&) = delete;

  // DREQ; OnEnded() follows when the peer answers, or after kGoodbyeNs: a peer that is gone never
  // does. Before the connection stands, it ends at once.
  void Disconnect();
  static constexpr uint64_t kGoodbyeNs = 12'000'000'000;  // two more DREQs
  // A peer of which nothing was heard for so long is asked by an RDMA WRITE of no bytes whether it
  // lives; one that does not acknowledge it ends the connection (Unavailable). A Linux program that
  // disconnects and exits sends its DREQ once: where that is lost, nothing else would tell.
  static constexpr uint64_t kQuietNs = 10'000'000'000;
  // Many round trips of a peer that lives, and little to wait for who was killed and comes back.
  static constexpr uint64_t kSilentNs = 1'000'000'000;

  // Null before OnReady().
  verbs::QueuePair* qp() { return qp_; }
  absl::StatusOr<memory::MemoryRegion> Register(void* address, uint64_t length, int access);
  absl::Status Deregister(const memory::MemoryRegion& region);
  // All work request IDs but UINT64_MAX are the user's.
  // Errors: what the queue pair's PostSend() or PostRecv() said.
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
  // Makes the queue pair and gives it to the identifier; goes on in OnBound().
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
  cm::ConnectionParam param_;  // of this connection: config_'s, as far as the peer allows
  cm::Id* listener_ = nullptr;
  cm::Id* id_ = nullptr;
  bool active_ = false;
  bool established_ = false;
  bool ended_ = false;
  uint64_t goodbye_by_ns_ = UINT64_MAX;
  uint64_t ask_at_ns_ = UINT64_MAX;
  cm::Id* next_ = nullptr;  // who takes the peer's place if that one stays silent
  cm::ConnectionParam next_offered_;
  uint64_t replace_at_ns_ = UINT64_MAX;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
  std::vector<memory::MemoryRegion> regions_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_CONNECTION_H_
