// The hosts on the link: their link-layer addresses, how these are found and kept fresh, and the
// frames that wait for one. What asks (ARP, neighbour discovery, the kernel) is behind Solicitor.
#ifndef POLLUX_STACK_IP_NEIGHBOURS_H_
#define POLLUX_STACK_IP_NEIGHBOURS_H_

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "stack/base/address.h"
#include "stack/base/types.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/address_handle.h"

struct rte_mbuf;

namespace pollux::ip {

// A host's address on its link.
struct NeighbourAddress {
  Gid gid;
  uint16_t vlan = kNoVlan;
  friend bool operator==(const NeighbourAddress&, const NeighbourAddress&) = default;
};

// Sends one request for the link-layer address of `target`, to everyone or to `unicast` alone.
class Solicitor {
 public:
  virtual ~Solicitor() = default;
  virtual void Solicit(const NeighbourAddress& target, const MacAddress* unicast,
                       transport::PollContext& context) = 0;
};

enum class NeighbourState : uint8_t {
  kFree,
  kIncomplete,  // asked for, not known
  kReachable,   // known and confirmed lately
  kStale,       // known, not confirmed lately, used by nobody
  kProbe,       // known and used, being confirmed
  kFailed,      // did not answer
  kPermanent,   // known without asking: a group
};

// What tells a neighbour's link-layer address, by how far it is believed.
enum class Evidence : uint8_t {
  kUnasked,  // a request of the neighbour's, or an announcement to everyone
  kAnswer,   // to a question of ours; believed only while one is open
  kKernel,   // the kernel's own table
};

// Owned by one worker. All memory but that of callbacks is taken at construction.
class NeighbourTable {
 public:
  static constexpr uint32_t kMaxNeighbours = 4096;   // a /20 of hosts that all talk to this one
  static constexpr uint32_t kMaxWaiting = 16;        // frames a neighbour
  static constexpr uint32_t kMaxWaitingTotal = 256;  // a part of the pool that the rest can spare
  static constexpr uint32_t kMaxCallbacks = 4096;
  static constexpr int kMaxRequests = 3;
  static constexpr uint64_t kRetryNs = 1'000'000'000;
  // Between the requests to a MAC address that is in doubt: when another host has taken over, this
  // is what its peers wait for.
  static constexpr uint64_t kDoubtRetryNs = 100'000'000;
  // Confirmed for a time between this and twice this, by chance, so that a rack that came up
  // together does not ask together.
  static constexpr uint64_t kReachableNs = 30'000'000'000;
  static constexpr uint64_t kForgetNs = 600'000'000'000;  // stale and unused for so long
  // Connections are looked through for progress at most so often, however many neighbours there
  // are.
  static constexpr uint64_t kLookNs = 1'000'000'000;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // Neither is owned, both outlive this. `*has_new_deadline` is set when deadline_ns() may have
  // become earlier.
  NeighbourTable(Solicitor* solicitor, bool* has_new_deadline);
  ~NeighbourTable();
  NeighbourTable(const NeighbourTable&) = delete;
  NeighbourTable& operator=(const NeighbourTable&) = delete;

  // The link address of `address`, referenced until Release(); resolution starts when it is not
  // known, and confirmation when it is stale. Null when every entry is referenced.
  const verbs::LinkAddress* Acquire(const NeighbourAddress& address,
                                    transport::PollContext& context);
  // The same for an address whose MAC follows from it.
  const verbs::LinkAddress* AcquirePermanent(const NeighbourAddress& address, const MacAddress& mac,
                                             transport::PollContext& context);
  void Release(const verbs::LinkAddress* link);
  // The host's own addresses, or its MAC address, are others now: those that it reaches by `mac`
  // follow, and one that it has lost is asked for like any other.
  void TakeOwn(absl::FunctionRef<bool(const NeighbourAddress& address)> is_own,
               const MacAddress& mac, transport::PollContext& context);

  // Calls `done` once: from inside when known, else when the answer comes or does not (Unavailable,
  // after kMaxRequests). ResourceExhausted when the table or the list of callbacks is full.
  void Resolve(const NeighbourAddress& address, transport::PollContext& context,
               absl::AnyInvocable<void(absl::Status)> done);

  // Takes over `frame`, finished but for its destination MAC: sent now or when the answer comes.
  // `link` must be one of Acquire()'s. Beyond a bound the oldest frame of this neighbour (or, when
  // it has none, this frame) is dropped and counted (Drop::kUnresolved).
  void Wait(const verbs::LinkAddress* link, rte_mbuf* frame, transport::PollContext& context);

  // What was heard of a neighbour. `create`: it spoke to this host, so an entry is made for it.
  // Returns whether it was taken up.
  //
  // | evidence | entry                     | what follows                                        |
  // | -------- | ------------------------- | --------------------------------------------------- |
  // | kAnswer  | asked directly            | the MAC that was asked is confirmed, no other taken |
  // | kAnswer  | asked for with everyone   | taken, confirmed                                    |
  // | kAnswer  | no question open          | ignored                                             |
  // | kUnasked | no MAC known              | taken, stale: asked directly when it is used        |
  // | kUnasked | the same MAC known        | nothing: it confirms nothing                        |
  // | kUnasked | another MAC known, used   | the known one is asked at once, and kept if it      |
  // |          |                           | answers; else everyone is                           |
  // | kUnasked | another MAC known, unused | forgotten: who uses it next asks everyone           |
  // | kKernel  | any                       | taken, confirmed                                    |
  //
  // So nobody leads away what goes to a host that is alive, as long as that answers (the kernel of
  // Linux takes an unasked MAC and asks it; an on-link attacker answers too).
  bool Learn(const NeighbourAddress& address, const MacAddress& mac, bool create, Evidence evidence,
             transport::PollContext& context);

  // Tells by which links, all of Acquire()'s, connections have made progress since the last call:
  // their peers have acknowledged something new, so the link-layer address is right.
  using ProgressReport = absl::FunctionRef<void(const verbs::LinkAddress* link)>;
  // Asked before a neighbour in use that was confirmed long ago is asked for (RFC 4861 section
  // 7.3.1). Without it each is asked for.
  void SetProgressSource(absl::AnyInvocable<void(ProgressReport)> source) {
    progress_source_ = std::move(source);
  }
  // A connection over `link`, one of Acquire()'s, has had no answer for too long: the known MAC
  // address is asked at once, unless it was confirmed less than kRetryNs ago.
  void Suspect(const verbs::LinkAddress* link, transport::PollContext& context);

  // Frees the frames that wait, uncounted. For the end, before the pools go.
  void Clear();

  uint64_t deadline_ns() const { return next_deadline_ns_; }
  void OnDeadline(transport::PollContext& context);

  NeighbourState state(const NeighbourAddress& address) const;
  uint32_t size() const { return size_; }
  uint64_t evicted() const { return evicted_; }

 private:
  static constexpr uint16_t kNone = 0xFFFF;
  static constexpr int kEvictionScan = 64;  // entries looked at for one to evict
  static_assert(kMaxNeighbours < kNone && kMaxWaitingTotal < kNone);

  struct Entry {
    verbs::LinkAddress link;
    NeighbourAddress address;
    MacAddress mac{};
    NeighbourState state = NeighbourState::kFree;
    uint8_t requests = 0;
    bool in_doubt = false;  // in kProbe: asked directly at kDoubtRetryNs
    uint16_t waiting_head = kNone;
    uint16_t waiting_tail = kNone;
    uint16_t waiting_count = 0;
    uint16_t chain = kNone;  // of the hash bucket, or of free entries
    uint16_t newer = kNone;  // by last use
    uint16_t older = kNone;
    uint32_t references = 0;
    uint64_t deadline_ns = kNever;
    uint64_t confirmed_ns = 0;  // by an answer, or by the progress of a connection
  };
  struct Waiting {
    rte_mbuf* frame;
    uint16_t next;
  };
  struct Callback {
    uint16_t entry;
    absl::AnyInvocable<void(absl::Status)> done;
  };
  using Callbacks = std::vector<absl::AnyInvocable<void(absl::Status)>>;

  uint16_t Find(const NeighbourAddress& address) const;
  uint16_t FindOrAdd(const NeighbourAddress& address, transport::PollContext& context);
  uint16_t& Bucket(const NeighbourAddress& address) { return buckets_[BucketOf(address)]; }
  size_t BucketOf(const NeighbourAddress& address) const;
  bool EvictOne(transport::PollContext& context);
  void Remove(uint16_t index, transport::PollContext& context);
  void PushNewest(uint16_t index);
  void Unlink(uint16_t index);
  void MakePermanent(uint16_t index, const MacAddress& mac, transport::PollContext& context);
  void Use(uint16_t index, transport::PollContext& context);
  void Ask(uint16_t index, NeighbourState state, transport::PollContext& context);
  void AskAgain(uint16_t index, transport::PollContext& context);
  // Whether the last question of a probe went to the known MAC address alone.
  static bool IsAskedDirectly(const Entry& entry) {
    return entry.state == NeighbourState::kProbe && entry.requests <= kMaxRequests;
  }
  bool HearUnasked(uint16_t index, const MacAddress& mac, transport::PollContext& context);
  void Doubt(uint16_t index, transport::PollContext& context);
  void Confirm(uint16_t index, const MacAddress& mac, transport::PollContext& context);
  bool HasProgressed(const Entry& entry, transport::PollContext& context);
  void Resolved(uint16_t index, transport::PollContext& context);
  void Fail(uint16_t index, transport::PollContext& context);
  void Expire(uint16_t index, transport::PollContext& context, Callbacks* failed);
  void Arm(Entry& entry, uint64_t deadline_ns);
  void SendWaiting(Entry& entry, transport::PollContext& context);
  rte_mbuf* TakeOldest(Entry& entry);
  void DropOldest(Entry& entry, transport::PollContext& context);
  void TakeCallbacks(uint16_t index, Callbacks* out);
  uint16_t IndexOf(const verbs::LinkAddress* link) const;

  Solicitor* solicitor_;
  bool* has_new_deadline_;
  std::unique_ptr<Entry[]> entries_;
  std::array<Waiting, kMaxWaitingTotal> waiting_;
  uint16_t free_waiting_ = kNone;
  std::array<uint16_t, kMaxNeighbours> buckets_;
  uint64_t salt_ = 0;  // so that nobody can aim at one bucket
  uint16_t free_ = kNone;
  uint16_t newest_ = kNone;
  uint16_t oldest_ = kNone;
  uint32_t size_ = 0;
  uint64_t evicted_ = 0;
  uint64_t next_deadline_ns_ = kNever;
  std::vector<Callback> callbacks_;
  absl::AnyInvocable<void(ProgressReport)> progress_source_;
  uint64_t next_look_ns_ = 0;  // for progress
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_NEIGHBOURS_H_
