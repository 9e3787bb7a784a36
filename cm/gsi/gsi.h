// Queue pair 1, the general services interface: unreliable datagrams of 256 bytes that carry CM's
// MADs. Source: IB specification volume 1, chapter 13.
#ifndef POLLUX_CM_GSI_GSI_H_
#define POLLUX_CM_GSI_GSI_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/gsi/counters.h"
#include "cm/wire/mad.h"
#include "stack/base/types.h"
#include "stack/engine/loop/worker.h"

namespace pollux::cm {

// Belongs to the worker that owns queue pair 1. Has its own protection domain, completion queue,
// buffers and address handles; all but the address handles are allocated at creation.
class Gsi {
 public:
  static constexpr uint32_t kReceives = 256;  // the most MADs that may arrive between two polls
  static constexpr uint32_t kSends = 256;     // size of the send queue
  // MADs that may wait for the send queue: as many as are sent if all connections of a server end
  // at once.
  static constexpr uint32_t kWaiting = 16'384;
  static constexpr size_t kMaxPeers =
      256;  // address pairs with an address handle; a new one replaces an idle one

  // The arguments are not owned and must outlive this object. Returns the worker's errors.
  static absl::StatusOr<std::unique_ptr<Gsi>> Create(engine::Worker* worker, Counters* counters);
  ~Gsi();
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  // Queues a MAD to queue pair 1 at `to`, from the address at `gid_index` of the GID table. MADs
  // are sent in the order of the calls. Returns false and counts a drop if it cannot be queued.
  bool Send(uint8_t gid_index, const Gid& to, const MadBuffer& mad);

  // Writes the frame of such a MAD, for another process to send: at most kMaxMadFrameBytes
  // (mad_frame.h). Returns the number of bytes, or 0 while the next hop is not resolved.
  size_t EmitFrame(uint8_t gid_index, const Gid& to, const MadBuffer& mad, uint8_t* frame);

  // Starts to resolve the next hop to `to`. Returns an error if there is no route.
  absl::Status StartResolve(uint8_t gid_index, const Gid& to);
  bool IsResolved(uint8_t gid_index, const Gid& to);

  // Passes each received MAD to `receiver`; `mad`, of any length, is valid during the call. Returns
  // true if it did anything.
  using Receiver =
      absl::FunctionRef<void(const Gid& from, const Gid& to, std::span<const uint8_t> mad)>;
  bool Poll(Receiver receiver);
  // Completions wake `poller`, which is not owned and must outlive this object.
  void WakeOnCompletion(Wakeup* poller) { cq_->WakeOnCompletion(poller); }
  // Whether Poll() would do anything: in most turns there is nothing to do.
  bool HasWork() const { return cq_->size() != 0 || !waiting_.empty(); }

 private:
  // The local and the peer's address. The index in the GID table cannot be the key, because it may
  // be reused for another address.
  using PeerKey = std::pair<std::array<uint8_t, 16>, std::array<uint8_t, 16>>;
  struct Peer {
    PeerKey key;
    verbs::AddressHandle* ah = nullptr;
    uint32_t in_flight = 0;
  };
  struct Buffers;

  Gsi(engine::Worker* worker, Counters* counters);
  absl::Status Init();
  struct Waiting {
    Gid from;
    Gid to;
    MadBuffer mad;
  };
  absl::Status PostReceive(uint32_t slot);
  bool PostSend(uint8_t gid_index, const Gid& to, const MadBuffer& mad);
  void SendWaiting();
  void OnReceived(const ibv_wc& wc, Receiver receiver);
  // Forgets the paths to all peers if the interface's addresses or routes have changed.
  void FollowInterface();
  // Whether the peer at this place was not forgotten since.
  bool IsCurrent(size_t at) const;
  void DestroyPath(Peer& peer);
  // Returns the peer's index in peers_; adds the peer if necessary. Returns the error of
  // CreateAh(), or ResourceExhausted if all entries are in use.
  absl::StatusOr<size_t> PeerIndex(uint8_t gid_index, const Gid& to);
  PeerKey KeyOf(uint8_t gid_index, const Gid& to) const;
  absl::StatusOr<size_t> FreePeer();

  engine::Worker* worker_;
  Counters* counters_;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
  memory::MemoryRegion region_;
  std::unique_ptr<Buffers> buffers_;
  std::vector<uint32_t> free_sends_;
  std::vector<size_t> peer_of_send_;
  std::deque<Waiting> waiting_;
  std::vector<Peer> peers_;
  absl::flat_hash_map<PeerKey, size_t> peer_index_;
  uint32_t address_version_ = 0;  // of the interface when peer_index_ was empty last
  size_t next_victim_ = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_GSI_H_
