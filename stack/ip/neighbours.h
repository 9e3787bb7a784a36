// The hosts on the link: their link-layer addresses, how these are found and kept current, and the
// frames that wait for them. The requests (ARP, neighbour discovery, the kernel) are sent by a
// Solicitor.
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

// Sends one request for the link-layer address of `target`, to all hosts or to `unicast` only.
class Solicitor {
 public:
  virtual ~Solicitor() = default;
  virtual void Solicit(const NeighbourAddress& target, const MacAddress* unicast,
                       transport::PollContext& context) = 0;
};

enum class NeighbourState : uint8_t {
  kFree,
  kIncomplete,  // requested, not known
  kReachable,   // known and recently confirmed
  kStale,       // known, not recently confirmed, not in use
  kProbe,       // known and in use, being confirmed
  kFailed,      // did not answer
  kPermanent,   // known without a request: a group, or an own address
};

// The source of a neighbour's link-layer address, which determines how far it is trusted.
enum class Evidence : uint8_t {
  kUnasked,  // a request from the neighbour, or an announcement to all hosts
  kAnswer,   // to this host's request; trusted only while one is pending
  kKernel,   // the kernel's own table
};

// Owned by one worker. All memory except that of callbacks is allocated at construction.
class NeighbourTable {
 public:
  static constexpr uint32_t kMaxNeighbours = 4096;   // a /20 of hosts that all use this one
  static constexpr uint32_t kMaxWaiting = 16;        // frames per neighbour
  static constexpr uint32_t kMaxWaitingTotal = 256;  // a part of the pool that the rest can spare
  static constexpr uint32_t kMaxCallbacks = 4096;
  static constexpr int kMaxRequests = 3;
  static constexpr uint64_t kRetryNs = 1'000'000'000;
  // The interval between requests to a MAC address that is in doubt. If another host has taken over
  // the IP address, traffic to it waits until these requests have failed.
  static constexpr uint64_t kDoubtRetryNs = 100'000'000;
  // An entry stays confirmed for a random time between this and twice this, so that the hosts of a
  // rack that started together do not all solicit at the same time.
  static constexpr uint64_t kReachableNs = 30'000'000'000;
  static constexpr uint64_t kForgetNs = 600'000'000'000;  // stale and unused entries are removed
  // The table looks for connections with progress at most once per kLookNs, whatever the number of
  // neighbours.
  static constexpr uint64_t kLookNs = 1'000'000'000;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // Neither is owned; both must outlive this object. `*has_new_deadline` is set when deadline_ns()
  // may have become earlier.
  NeighbourTable(Solicitor* solicitor, bool* has_new_deadline);
  ~NeighbourTable();
  NeighbourTable(const NeighbourTable&) = delete;
  NeighbourTable& operator=(const NeighbourTable&) = delete;

  // Returns the link address of `address`, referenced until Release(). Starts resolution if it is
  // not known, and confirmation if it is stale. Returns null if all entries are referenced.
  const verbs::LinkAddress* Acquire(const NeighbourAddress& address,
                                    transport::PollContext& context);
  // The same for an address whose MAC address is known without a request.
  const verbs::LinkAddress* AcquirePermanent(const NeighbourAddress& address, const MacAddress& mac,
                                             transport::PollContext& context);
  void Release(const verbs::LinkAddress* link);
  // Call it when the host's own addresses or its MAC address have changed. Entries for the host's
  // own addresses then hold `mac`; an address that the host no longer has is resolved like any
  // other. The versions of all links change.
  void TakeOwn(absl::FunctionRef<bool(const NeighbourAddress& address)> is_own,
               const MacAddress& mac, transport::PollContext& context);

  // Calls `done` once: before returning if the address is known, otherwise when it is answered or
  // fails (Unavailable, after kMaxRequests). ResourceExhausted: the table or the list of callbacks
  // is full.
  void Resolve(const NeighbourAddress& address, transport::PollContext& context,
               absl::AnyInvocable<void(absl::Status)> done);

  // Takes over `frame`, which is complete except for its destination MAC, and sends it now or when
  // the address is known. `link` must be from Acquire(). If too many frames wait, the oldest one of
  // this neighbour (or, if it has none, this frame) is dropped and counted (Drop::kUnresolved).
  void Wait(const verbs::LinkAddress* link, rte_mbuf* frame, transport::PollContext& context);

  // Processes a link-layer address that was received for a neighbour. `create`: make an entry if
  // there is none, because the neighbour sent a packet to this host. Returns whether the address
  // was accepted.
  //
  // | evidence | entry                        | effect                                           |
  // | -------- | ---------------------------- | ------------------------------------------------ |
  // | kAnswer  | solicited at its known MAC   | that MAC is confirmed; any other is ignored      |
  // | kAnswer  | solicited from all hosts     | accepted, confirmed                              |
  // | kAnswer  | no request pending           | ignored                                          |
  // | kUnasked | no MAC known                 | accepted, stale: solicited directly when used    |
  // | kUnasked | same MAC known               | none: it confirms nothing                        |
  // | kUnasked | other MAC known, in use      | the known MAC is solicited at once and kept if   |
  // |          |                              | it answers; otherwise all hosts are solicited    |
  // | kUnasked | other MAC known, not in use  | removed: the next use solicits all hosts         |
  // | kKernel  | any                          | accepted, confirmed                              |
  //
  // Traffic to a host that is alive can therefore not be redirected as long as that host answers
  // (the Linux kernel accepts an unsolicited MAC address and then solicits it; an on-link attacker
  // answers too).
  bool Learn(const NeighbourAddress& address, const MacAddress& mac, bool create, Evidence evidence,
             transport::PollContext& context);

  // Reports the links, all from Acquire(), whose connections have made progress since the last
  // call: their peers have acknowledged something new, so the link-layer address is right.
  using ProgressReport = absl::FunctionRef<void(const verbs::LinkAddress* link)>;
  // Called before a neighbour that is in use and was confirmed long ago is solicited (RFC 4861
  // section 7.3.1). Without a source, each such neighbour is solicited.
  void SetProgressSource(absl::AnyInvocable<void(ProgressReport)> source) {
    progress_source_ = std::move(source);
  }
  // A connection over `link`, which is from Acquire(), has had no response for too long: solicits
  // the known MAC address at once, unless it was confirmed less than kRetryNs ago.
  void Suspect(const verbs::LinkAddress* link, transport::PollContext& context);

  // Frees the waiting frames without counting them. Call it at shutdown, before the packet pools
  // are destroyed.
  void Clear();

  uint64_t deadline_ns() const { return next_deadline_ns_; }
  void OnDeadline(transport::PollContext& context);

  NeighbourState state(const NeighbourAddress& address) const;
  uint32_t size() const { return size_; }
  uint64_t evicted() const { return evicted_; }

 private:
  static constexpr uint16_t kNone = 0xFFFF;
  static constexpr int kEvictionScan = 64;  // entries checked to find one to evict
  static constexpr int kKnownScan = 8;      // of them, known neighbours that could be evicted
  static_assert(kMaxNeighbours < kNone && kMaxWaitingTotal < kNone);

  struct Entry {
    verbs::LinkAddress link;
    NeighbourAddress address;
    MacAddress mac{};
    NeighbourState state = NeighbourState::kFree;
    uint8_t requests = 0;
    bool in_doubt = false;  // in kProbe: solicited directly every kDoubtRetryNs
    uint16_t waiting_head = kNone;
    uint16_t waiting_tail = kNone;
    uint16_t waiting_count = 0;
    uint16_t chain = kNone;  // the next in the hash bucket or the free list
    uint16_t newer = kNone;  // in the order of last use
    uint16_t older = kNone;
    uint32_t references = 0;
    uint32_t callbacks = 0;
    uint64_t deadline_ns = kNever;
    uint64_t confirmed_ns = 0;  // by an answer or by the progress of a connection
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
  // Whether someone holds a reference or waits for its address.
  bool IsAwaited(uint16_t index) const {
    return entries_[index].references > 0 || entries_[index].callbacks > 0;
  }
  void Remove(uint16_t index, transport::PollContext& context);
  void PushNewest(uint16_t index);
  void Unlink(uint16_t index);
  void MakePermanent(uint16_t index, const MacAddress& mac, transport::PollContext& context);
  void Use(uint16_t index, transport::PollContext& context);
  void Ask(uint16_t index, NeighbourState state, transport::PollContext& context);
  void AskAgain(uint16_t index, transport::PollContext& context);
  // Whether the last request of a probe went to the known MAC address only.
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
  uint64_t salt_ = 0;  // random, so that no peer can target one bucket
  uint16_t free_ = kNone;
  uint16_t newest_ = kNone;
  uint16_t oldest_ = kNone;
  uint32_t size_ = 0;
  uint64_t evicted_ = 0;
  uint64_t next_deadline_ns_ = kNever;
  std::vector<Callback> callbacks_;
  absl::AnyInvocable<void(ProgressReport)> progress_source_;
  uint64_t next_look_ns_ = 0;  // when connections may be searched for progress again
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_NEIGHBOURS_H_
