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

// Lives on the worker that owns queue pair 1, with a protection domain, completion queue, buffers
// and address handles of its own, all taken at creation but for the address handles.
class Gsi {
 public:
  static constexpr uint32_t kReceives = 256;  // MADs that may arrive between two polls
  static constexpr uint32_t kSends = 256;     // MADs that the queue pair has
  // More that wait for a place there: as many as an end of all of a server's connections sends.
  static constexpr uint32_t kWaiting = 16'384;
  static constexpr size_t kMaxPeers =
      256;  // pairs of addresses remembered; the oldest idle one gives way

  // Neither is owned; both outlive this. Errors are the worker's.
  static absl::StatusOr<std::unique_ptr<Gsi>> Create(engine::Worker* worker, Counters* counters);
  ~Gsi();
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  // Queues a MAD to queue pair 1 at `to`, from the address at `gid_index` of the GID table; in the
  // order of the calls. False, and counted, when it cannot be.
  bool Send(uint8_t gid_index, const Gid& to, const MadBuffer& mad);

  // Writes the frame of such a MAD, for another process to send: at most kMaxMadFrameBytes
  // (mad_frame.h). How many; 0 while the next hop is not resolved.
  size_t EmitFrame(uint8_t gid_index, const Gid& to, const MadBuffer& mad, uint8_t* frame);

  // Starts to find the next hop towards `to`. An error when there is no route.
  absl::Status StartResolve(uint8_t gid_index, const Gid& to);
  bool IsResolved(uint8_t gid_index, const Gid& to);

  // Hands on what has arrived; `mad`, of any length, is valid during the call. True when there was
  // something.
  using Receiver =
      absl::FunctionRef<void(const Gid& from, const Gid& to, std::span<const uint8_t> mad)>;
  bool Poll(Receiver receiver);
  // Completions wake `poller` (not owned, outlives this).
  void WakeOnCompletion(Wakeup* poller) { cq_->WakeOnCompletion(poller); }
  // All that Poll() looks for; most turns find nothing of it.
  bool HasWork() const { return cq_->size() != 0 || !waiting_.empty(); }

 private:
  // Our address, and theirs. Not its place in the GID table, which another may take.
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
  // A peer's place, made if need be; the error of CreateAh, or ResourceExhausted when all are busy.
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
  size_t next_victim_ = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_GSI_H_
