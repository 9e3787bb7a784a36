#include "stack/ip/neighbours.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"

namespace pollux::ip {
namespace {

using transport::Drop;
using transport::PollContext;

// A known neighbour is asked directly first, then all hosts are: it may have another MAC now.
constexpr int kMaxConfirmations = 2 * NeighbourTable::kMaxRequests;

void SendTo(const MacAddress& mac, rte_mbuf* frame, PollContext& context) {
  std::memcpy(rte_pktmbuf_mtod(frame, uint8_t*), mac.data(), mac.size());
  context.egress.Push(frame, context.now_ns);
}

bool IsKnown(NeighbourState state) {
  return state == NeighbourState::kReachable || state == NeighbourState::kStale ||
         state == NeighbourState::kProbe || state == NeighbourState::kPermanent;
}

absl::Status NoAnswer(const Gid& address) {
  return absl::UnavailableError(absl::StrCat(
      "no answer to ", address.IsIpv4() ? "ARP" : "neighbour discovery", " for ",
      FormatAddress(address), " (", NeighbourTable::kMaxRequests, " requests, 1 s apart)"));
}

}  // namespace

NeighbourTable::NeighbourTable(Solicitor* solicitor, bool* has_new_deadline)
    : solicitor_(solicitor),
      has_new_deadline_(has_new_deadline),
      entries_(new Entry[kMaxNeighbours]) {
  buckets_.fill(kNone);
  for (uint32_t i = kMaxNeighbours; i-- > 0;) {
    entries_[i].chain = free_;
    free_ = static_cast<uint16_t>(i);
  }
  for (uint32_t i = kMaxWaitingTotal; i-- > 0;) {
    waiting_[i] = {.frame = nullptr, .next = free_waiting_};
    free_waiting_ = static_cast<uint16_t>(i);
  }
}

NeighbourTable::~NeighbourTable() { Clear(); }

void NeighbourTable::Clear() {
  for (uint16_t i = newest_; i != kNone; i = entries_[i].older) {
    while (entries_[i].waiting_count > 0) rte_pktmbuf_free(TakeOldest(entries_[i]));
  }
}

// ---- Finding, adding, evicting.

size_t NeighbourTable::BucketOf(const NeighbourAddress& address) const {
  const auto& raw = address.gid.raw;
  uint64_t hash = (LoadBe64(&raw[0]) ^ address.vlan) * 0x9E3779B97F4A7C15u + salt_;
  hash = (hash ^ (hash >> 32) ^ LoadBe64(&raw[8])) * (salt_ | 1);
  return (hash >> 40) % kMaxNeighbours;
}

uint16_t NeighbourTable::Find(const NeighbourAddress& address) const {
  uint16_t index = buckets_[BucketOf(address)];
  while (index != kNone && !(entries_[index].address == address)) index = entries_[index].chain;
  return index;
}

uint16_t NeighbourTable::FindOrAdd(const NeighbourAddress& address, PollContext& context) {
  if (size_ == 0) salt_ = context.random.Next64();
  uint16_t index = Find(address);
  if (index != kNone) {
    Unlink(index);
    PushNewest(index);
    return index;
  }
  if (free_ == kNone && !EvictOne(context)) return kNone;
  index = free_;
  Entry& entry = entries_[index];
  free_ = entry.chain;
  entry.address = address;
  entry.chain = Bucket(address);
  Bucket(address) = index;
  PushNewest(index);
  ++size_;
  return index;
}

bool NeighbourTable::EvictOne(PollContext& context) {
  // Senders can invent addresses to which this host must answer: entries without an answer are
  // removed before hosts that exist.
  uint16_t victim = kNone;
  int known = 0;
  uint16_t index = oldest_;
  for (int i = 0; i < kEvictionScan && known < kKnownScan && index != kNone; ++i) {
    const uint16_t next = entries_[index].newer;
    if (IsAwaited(index)) {
      // Not looked at again until the others were.
      Unlink(index);
      PushNewest(index);
    } else if (IsKnown(entries_[index].state)) {
      if (known++ == 0) victim = index;
    } else {
      victim = index;
      break;
    }
    index = next;
  }
  if (victim == kNone) return false;
  Remove(victim, context);
  ++evicted_;
  return true;
}

void NeighbourTable::Remove(uint16_t index, PollContext& context) {
  Entry& entry = entries_[index];
  while (entry.waiting_count > 0) DropOldest(entry, context);
  uint16_t* link = &Bucket(entry.address);
  while (*link != index) link = &entries_[*link].chain;
  *link = entry.chain;
  Unlink(index);
  entry.link.Store({}, false);
  entry.state = NeighbourState::kFree;
  entry.deadline_ns = kNever;
  entry.confirmed_ns = 0;
  entry.chain = free_;
  free_ = index;
  --size_;
}

void NeighbourTable::PushNewest(uint16_t index) {
  Entry& entry = entries_[index];
  entry.newer = kNone;
  entry.older = newest_;
  if (newest_ != kNone) entries_[newest_].newer = index;
  newest_ = index;
  if (oldest_ == kNone) oldest_ = index;
}

void NeighbourTable::Unlink(uint16_t index) {
  Entry& entry = entries_[index];
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
}

uint16_t NeighbourTable::IndexOf(const verbs::LinkAddress* link) const {
  const auto* entry =
      reinterpret_cast<const Entry*>(reinterpret_cast<const char*>(link) - offsetof(Entry, link));
  return static_cast<uint16_t>(entry - entries_.get());
}

// ---- What users of addresses ask for.

const verbs::LinkAddress* NeighbourTable::Acquire(const NeighbourAddress& address,
                                                  PollContext& context) {
  const uint16_t index = FindOrAdd(address, context);
  if (index == kNone) return nullptr;
  ++entries_[index].references;
  Use(index, context);
  return &entries_[index].link;
}

const verbs::LinkAddress* NeighbourTable::AcquirePermanent(const NeighbourAddress& address,
                                                           const MacAddress& mac,
                                                           PollContext& context) {
  const uint16_t index = FindOrAdd(address, context);
  if (index == kNone) return nullptr;
  ++entries_[index].references;
  MakePermanent(index, mac, context);
  return &entries_[index].link;
}

void NeighbourTable::MakePermanent(uint16_t index, const MacAddress& mac, PollContext& context) {
  Entry& entry = entries_[index];
  if (entry.state == NeighbourState::kPermanent && entry.mac == mac) return;
  entry.state = NeighbourState::kPermanent;
  entry.deadline_ns = kNever;
  entry.mac = mac;
  entry.link.Store(mac, true);
  Resolved(index, context);
}

void NeighbourTable::TakeOwn(absl::FunctionRef<bool(const NeighbourAddress& address)> is_own,
                             const MacAddress& mac, PollContext& context) {
  for (uint16_t i = newest_; i != kNone; i = entries_[i].older) {
    Entry& entry = entries_[i];
    entry.link.Renew();
    if (entry.address.gid.IsMulticast()) continue;
    if (is_own(entry.address)) {
      MakePermanent(i, mac, context);
    } else if (entry.state == NeighbourState::kPermanent) {
      entry.state = NeighbourState::kFree;
      entry.link.Store({}, false);
      if (entry.references > 0) Use(i, context);
    }
  }
}

void NeighbourTable::Release(const verbs::LinkAddress* link) {
  Entry& entry = entries_[IndexOf(link)];
  if (entry.references > 0) --entry.references;
}

void NeighbourTable::Resolve(const NeighbourAddress& address, PollContext& context,
                             absl::AnyInvocable<void(absl::Status)> done) {
  const uint16_t index = FindOrAdd(address, context);
  if (index == kNone || callbacks_.size() >= kMaxCallbacks) {
    done(absl::ResourceExhaustedError(
        absl::StrCat("too many neighbours or resolutions at once (", kMaxNeighbours, ")")));
    return;
  }
  Use(index, context);
  if (IsKnown(entries_[index].state)) {
    done(absl::OkStatus());
    return;
  }
  callbacks_.push_back({.entry = index, .done = std::move(done)});
  ++entries_[index].callbacks;
}

void NeighbourTable::Wait(const verbs::LinkAddress* link, rte_mbuf* frame, PollContext& context) {
  const uint16_t index = IndexOf(link);
  Entry& entry = entries_[index];
  Use(index, context);
  if (IsKnown(entry.state)) {
    SendTo(entry.mac, frame, context);
    return;
  }
  if (entry.waiting_count == kMaxWaiting || (free_waiting_ == kNone && entry.waiting_count > 0)) {
    DropOldest(entry, context);
  }
  if (free_waiting_ == kNone) {
    context.counters.Count(Drop::kUnresolved);
    ++context.counters.send_err;
    rte_pktmbuf_free(frame);
    return;
  }
  const uint16_t place = free_waiting_;
  free_waiting_ = waiting_[place].next;
  waiting_[place] = {.frame = frame, .next = kNone};
  (entry.waiting_tail == kNone ? entry.waiting_head : waiting_[entry.waiting_tail].next) = place;
  entry.waiting_tail = place;
  ++entry.waiting_count;
}

rte_mbuf* NeighbourTable::TakeOldest(Entry& entry) {
  const uint16_t place = entry.waiting_head;
  entry.waiting_head = waiting_[place].next;
  if (entry.waiting_head == kNone) entry.waiting_tail = kNone;
  --entry.waiting_count;
  waiting_[place].next = free_waiting_;
  free_waiting_ = place;
  return waiting_[place].frame;
}

void NeighbourTable::DropOldest(Entry& entry, PollContext& context) {
  context.counters.Count(Drop::kUnresolved);
  ++context.counters.send_err;
  rte_pktmbuf_free(TakeOldest(entry));
}

void NeighbourTable::SendWaiting(Entry& entry, PollContext& context) {
  while (entry.waiting_count > 0) SendTo(entry.mac, TakeOldest(entry), context);
}

// ---- Asking and being answered.

void NeighbourTable::Use(uint16_t index, PollContext& context) {
  switch (entries_[index].state) {
    case NeighbourState::kFree:
    case NeighbourState::kFailed:
      Ask(index, NeighbourState::kIncomplete, context);
      return;
    case NeighbourState::kStale:
      Ask(index, NeighbourState::kProbe, context);
      return;
    case NeighbourState::kIncomplete:
    case NeighbourState::kReachable:
    case NeighbourState::kProbe:
    case NeighbourState::kPermanent:
      return;
  }
}

void NeighbourTable::Ask(uint16_t index, NeighbourState state, PollContext& context) {
  entries_[index].state = state;
  entries_[index].requests = 0;
  entries_[index].in_doubt = false;
  AskAgain(index, context);
}

// The known MAC address is asked whether it still is.
void NeighbourTable::Doubt(uint16_t index, PollContext& context) {
  Entry& entry = entries_[index];
  entry.state = NeighbourState::kProbe;
  entry.requests = 0;
  entry.in_doubt = true;
  AskAgain(index, context);
}

void NeighbourTable::AskAgain(uint16_t index, PollContext& context) {
  Entry& entry = entries_[index];
  const bool directly = entry.state == NeighbourState::kProbe && entry.requests < kMaxRequests;
  ++entry.requests;
  Arm(entry, context.now_ns + (directly && entry.in_doubt ? kDoubtRetryNs : kRetryNs));
  solicitor_->Solicit(entry.address, directly ? &entry.mac : nullptr, context);
}

bool NeighbourTable::Learn(const NeighbourAddress& address, const MacAddress& mac, bool create,
                           Evidence evidence, PollContext& context) {
  uint16_t index = Find(address);
  if (index == kNone && !create) return false;
  if (index == kNone) index = FindOrAdd(address, context);
  if (index == kNone) return false;
  const Entry& entry = entries_[index];
  // The host's own, or a group: whoever says otherwise speaks of what was.
  if (entry.state == NeighbourState::kPermanent) return false;
  if (evidence == Evidence::kUnasked) return HearUnasked(index, mac, context);
  if (evidence == Evidence::kAnswer) {
    const bool open =
        entry.state == NeighbourState::kIncomplete || entry.state == NeighbourState::kProbe;
    if (!open || (IsAskedDirectly(entry) && entry.mac != mac)) return false;
  }
  Confirm(index, mac, context);
  return true;
}

bool NeighbourTable::HearUnasked(uint16_t index, const MacAddress& mac, PollContext& context) {
  Entry& entry = entries_[index];
  if (!IsKnown(entry.state)) {
    const bool wanted = entry.references > 0 || entry.state == NeighbourState::kIncomplete;
    entry.mac = mac;
    entry.link.Store(mac, true);
    entry.state = NeighbourState::kStale;
    Arm(entry, context.now_ns + kForgetNs);
    if (wanted) Ask(index, NeighbourState::kProbe, context);
    Resolved(index, context);
    return true;
  }
  if (entry.mac == mac) return true;
  if (entry.references == 0) {
    Remove(index, context);
  } else if (entry.state != NeighbourState::kProbe || (IsAskedDirectly(entry) && !entry.in_doubt)) {
    // Not begun anew by the next claim: that would put off asking everyone for ever.
    Doubt(index, context);
  }
  return false;
}

void NeighbourTable::Confirm(uint16_t index, const MacAddress& mac, PollContext& context) {
  Entry& entry = entries_[index];
  if (!IsKnown(entry.state) || entry.mac != mac) {
    entry.mac = mac;
    entry.link.Store(mac, true);
  }
  entry.state = NeighbourState::kReachable;
  entry.in_doubt = false;
  entry.confirmed_ns = context.now_ns;
  Arm(entry, context.now_ns + kReachableNs + context.random.Below(kReachableNs));
  Resolved(index, context);
}

void NeighbourTable::Suspect(const verbs::LinkAddress* link, PollContext& context) {
  const uint16_t index = IndexOf(link);
  const Entry& entry = entries_[index];
  if (entry.state != NeighbourState::kReachable || context.now_ns < entry.confirmed_ns + kRetryNs) {
    return;
  }
  Doubt(index, context);
}

// A look takes in all neighbours, so that many of them cost no more than one.
bool NeighbourTable::HasProgressed(const Entry& entry, PollContext& context) {
  if (progress_source_ && context.now_ns >= next_look_ns_) {
    next_look_ns_ = context.now_ns + kLookNs;
    progress_source_([this, &context](const verbs::LinkAddress* link) {
      entries_[IndexOf(link)].confirmed_ns = context.now_ns;
    });
  }
  return context.now_ns < entry.confirmed_ns + kReachableNs;
}

// Its MAC address is known: what waits for it goes on.
void NeighbourTable::Resolved(uint16_t index, PollContext& context) {
  SendWaiting(entries_[index], context);
  Callbacks resolved;
  TakeCallbacks(index, &resolved);
  for (auto& done : resolved) done(absl::OkStatus());
}

void NeighbourTable::TakeCallbacks(uint16_t index, Callbacks* out) {
  // The usual case, and one that must not cost an ARP packet anything.
  if (callbacks_.empty()) return;
  entries_[index].callbacks = 0;
  for (Callback& callback : callbacks_) {
    if (callback.entry == index) out->push_back(std::move(callback.done));
  }
  callbacks_.erase(std::remove_if(callbacks_.begin(), callbacks_.end(),
                                  [index](const Callback& c) { return c.entry == index; }),
                   callbacks_.end());
}

// ---- Time.

void NeighbourTable::Arm(Entry& entry, uint64_t deadline_ns) {
  entry.deadline_ns = deadline_ns;
  next_deadline_ns_ = std::min(next_deadline_ns_, deadline_ns);
  *has_new_deadline_ = true;
}

void NeighbourTable::OnDeadline(PollContext& context) {
  if (context.now_ns < next_deadline_ns_) return;
  Callbacks failed;
  std::vector<absl::Status> statuses;
  next_deadline_ns_ = kNever;
  for (uint16_t i = newest_; i != kNone;) {
    Entry& entry = entries_[i];
    const uint16_t older = entry.older;
    if (entry.deadline_ns <= context.now_ns) {
      const Gid address = entry.address.gid;
      Expire(i, context, &failed);
      if (statuses.size() < failed.size()) statuses.resize(failed.size(), NoAnswer(address));
    }
    if (entry.state != NeighbourState::kFree) {
      next_deadline_ns_ = std::min(next_deadline_ns_, entry.deadline_ns);
    }
    i = older;
  }
  // Last, since they may come back into the table.
  for (size_t i = 0; i < failed.size(); ++i) failed[i](statuses[i]);
}

void NeighbourTable::Expire(uint16_t index, PollContext& context, Callbacks* failed) {
  Entry& entry = entries_[index];
  switch (entry.state) {
    case NeighbourState::kIncomplete:
      if (entry.requests < kMaxRequests) return AskAgain(index, context);
      Fail(index, context);
      TakeCallbacks(index, failed);
      return;
    case NeighbourState::kProbe:
      // Of one in doubt, progress may be older than the doubt.
      if (!entry.in_doubt && HasProgressed(entry, context)) {
        return Confirm(index, entry.mac, context);
      }
      if (entry.requests < kMaxConfirmations) return AskAgain(index, context);
      return Fail(index, context);
    case NeighbourState::kReachable:
      if (entry.references > 0) {
        if (HasProgressed(entry, context)) return Confirm(index, entry.mac, context);
        return Ask(index, NeighbourState::kProbe, context);
      }
      entry.state = NeighbourState::kStale;
      return Arm(entry, context.now_ns + kForgetNs);
    case NeighbourState::kStale:
    case NeighbourState::kFailed:
      if (entry.references == 0) return Remove(index, context);
      entry.deadline_ns = kNever;
      return;
    case NeighbourState::kFree:
    case NeighbourState::kPermanent:
      return;
  }
}

void NeighbourTable::Fail(uint16_t index, PollContext& context) {
  Entry& entry = entries_[index];
  while (entry.waiting_count > 0) DropOldest(entry, context);
  entry.state = NeighbourState::kFailed;
  entry.link.Store({}, false, /*unanswered=*/true);
  Arm(entry, context.now_ns + kRetryNs);
}

NeighbourState NeighbourTable::state(const NeighbourAddress& address) const {
  const uint16_t index = Find(address);
  return index == kNone ? NeighbourState::kFree : entries_[index].state;
}

}  // namespace pollux::ip
