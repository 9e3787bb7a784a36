#include "stack/verbs/completion_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/base/planted_fault.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::verbs {
namespace {

// As many completions as the deepest queue has work requests. Of a longer ring the rest takes
// memory when more than that wait at once.
constexpr uint32_t kEntriesInMemory = kMaxWorkRequests;

LineArray<ibv_wc> MakeRing(uint32_t slots) {
  return MakeLineArray<ibv_wc>(slots, kEntriesInMemory);
}

}  // namespace

CompletionQueue::CompletionQueue(uint32_t entries, EventList* events, EventHandler handler)
    : EventSource(events, std::move(handler)),
      capacity_(std::clamp<uint32_t>(entries, 1, kMaxCqEntries)),
      mask_(std::bit_ceil(capacity_) - 1),
      ring_(MakeRing(mask_ + 1)) {}

CompletionQueue::~CompletionQueue() { LeaveChannel(); }

bool CompletionQueue::Lose() {
  if (Planted(Fault::kOverrunUnnoticed)) return true;
  if (!overrun_) RaiseEvent(IBV_EVENT_CQ_ERR);
  if (poller_ != nullptr) poller_->Wake();
  overrun_ = true;
  return false;
}

void CompletionQueue::Tell(const ibv_wc& wc, bool solicited) {
  if (armed_ == Armed::kPoller) return poller_->Wake();
  if (armed_ == Armed::kAny || solicited || wc.status != IBV_WC_SUCCESS) {
    armed_ = Armed::kNot;
    // One that was not taken yet tells of this completion too.
    if (!announced()) {
      announced_.store(true, std::memory_order_relaxed);
      channel_->Announce(this);
    }
  }
}

bool CompletionQueue::HasCompletionOf(uint32_t qp_num) const {
  for (uint32_t at = head_; at != tail_; ++at) {
    if (ring_[at & mask_].qp_num == qp_num) return true;
  }
  return false;
}

absl::Status CompletionQueue::SetChannel(CompletionChannel* channel) {
  if (!channel->Attach()) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "completion channel: it serves %u completion queues already; create another",
        CompletionChannel::kMaxQueues));
  }
  if (channel_ != nullptr) channel_->Detach();
  channel_ = channel;
  return absl::OkStatus();
}

void CompletionQueue::LeaveChannel() {
  if (channel_ == nullptr) return;
  std::exchange(channel_, nullptr)->Detach();
  armed_ = Armed::kNot;
}

void CompletionQueue::Arm(bool solicited_only) {
  if (channel_ == nullptr) return;
  if (solicited_only && armed_ == Armed::kAny) return;  // the wider wish stands
  armed_ = solicited_only ? Armed::kSolicited : Armed::kAny;
}

absl::Status CompletionQueue::Resize(uint32_t entries) {
  if (entries == 0 || entries > kMaxCqEntries) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "completion queue of %u entries asked for; 1 to %u are allowed", entries, kMaxCqEntries));
  }
  if (size() > entries) {
    return absl::FailedPreconditionError(
        absl::StrFormat("completion queue: %u completions wait, %u entries asked for; poll first",
                        size(), entries));
  }
  const uint32_t mask = std::bit_ceil(entries) - 1;
  auto ring = MakeRing(mask + 1);
  if (ring == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("completion queue: no memory for %u entries", entries));
  }
  const uint32_t count = size();
  Poll(static_cast<int>(count), ring.get());
  ring_ = std::move(ring);
  mask_ = mask;
  capacity_ = entries;
  head_ = 0;
  tail_ = count;
  return absl::OkStatus();
}

void CompletionQueue::Detach(QueuePair* qp) {
  const auto found = std::find(users_.rbegin(), users_.rend(), qp);
  if (found == users_.rend()) return;
  *found = users_.back();
  users_.pop_back();
}

// What is lost cannot be made good: no queue pair may go on as if nothing were.
void CompletionQueue::DeliverEvents() {
  if (overrun_) {
    for (QueuePair* qp : users_) qp->OnCompletionLost();
  }
  EventSource::DeliverEvents();
}

}  // namespace pollux::verbs
