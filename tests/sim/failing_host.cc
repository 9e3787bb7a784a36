#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/sim/failing_end.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kCompletions = 4096;
constexpr size_t kArenaBytes =
    FailingHost::kSharedReceives * (FailingHost::kBufferBytes + FailingHost::kGapBytes);

}  // namespace

FailingHost::FailingHost(Node& node, unsigned arena_slot, bool shares_receives, uint64_t seed,
                         Log* log)
    : node_(node),
      random_(seed),
      log_(log),
      pd_(node.worker().AllocPd().value()),
      cq_(node.worker().CreateCq(kCompletions, [this](ibv_event_type) { OnOverrun(); }).value()) {
  if (shares_receives) {
    srq_ = worker().CreateSrq(pd_, {.max_wr = kSharedReceives, .max_sge = 1}).value();
    arena_ = std::make_unique<Arena>(kArenaBytes, arena_slot, random_);
    region_ = worker().RegMr(pd_, arena_->at(0), kArenaBytes, IBV_ACCESS_LOCAL_WRITE).value();
    for (uint32_t i = 0; i < kSharedReceives; ++i) free_receives_.push_back(i);
  }
  worker().AddPoller(this);
}

FailingHost::~FailingHost() { worker().RemovePoller(this); }

void FailingHost::Add(FailingEnd* end) { ends_[end->qpn().value] = end; }

void FailingHost::Remove(FailingEnd* end) {
  const auto found = ends_.find(end->qpn().value);
  if (found != ends_.end() && found->second == end) ends_.erase(found);
}

void FailingHost::Stall() {
  stalled_ = true;
  const absl::Status status = cq_->Resize(std::max(1u, cq_->size()));
  if (!status.ok()) log_->Violate(status.ToString());
}

void FailingHost::Resume() {
  stall_in_ = 0;
  if (!stalled_ || overran_) return;
  stalled_ = false;
  const absl::Status status = cq_->Resize(kCompletions);
  if (!status.ok()) log_->Violate(status.ToString());
}

void FailingHost::OnOverrun() {
  if (!stalled_ || overran_) log_->Violate("IBV_EVENT_CQ_ERR without a reason, or twice");
  overran_ = true;
  may_be_lost_ = kSharedReceives;
  Resume();
  for (const auto& [qpn, end] : ends_) end->OnCompletionsLost();
}

bool FailingHost::Poll(uint64_t) {
  if (stall_in_ > 1 && --stall_in_ == 1) Stall();
  if (stall_in_ != 1) PollCompletions();
  bool worked = PostShared();
  // A copy: an end that destroys its queue pair leaves.
  const std::map<uint32_t, FailingEnd*> ends = ends_;
  for (const auto& [qpn, end] : ends) worked |= end->Run();
  return worked;
}

void FailingHost::PollCompletions() {
  ibv_wc completions[16];
  while (const int count = cq_->Poll(16, completions)) {
    for (int i = 0; i < count; ++i) Dispatch(completions[i]);
  }
}

void FailingHost::Dispatch(const ibv_wc& wc) {
  for (const uint64_t value : {wc.wr_id, uint64_t{wc.status}, uint64_t{wc.byte_len}}) {
    log_->Digest(value);
  }
  const auto found = ends_.find(wc.qp_num);
  if (found != ends_.end()) {
    found->second->OnCompletion(wc);
  } else {
    log_->Violate(absl::StrFormat(
        "a completion, status %d, of %s", wc.status,
        retired_.contains(wc.qp_num) ? "a queue pair that was destroyed" : "a foreign queue pair"));
  }
  const bool shared = srq_ != nullptr && wc.opcode == IBV_WC_RECV;
  const bool shared_write = srq_ != nullptr && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  if (!shared && !shared_write) return;
  // Whatever a message left there before it was flushed.
  const size_t place = SharedPlace(wc.wr_id);
  arena_->Expect(place, arena_->at(place), kBufferBytes);
  free_receives_.push_back(static_cast<uint32_t>(wc.wr_id));
}

bool FailingHost::PostShared() {
  if (srq_ == nullptr || free_receives_.empty() || random_.Chance(0.5)) return false;
  const uint32_t index = free_receives_.back();
  free_receives_.pop_back();
  ibv_sge sge{reinterpret_cast<uint64_t>(arena_->at(SharedPlace(index))), kBufferBytes,
              region_.key};
  ibv_recv_wr wr{};
  wr.wr_id = index;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (const int error = srq_->PostRecv(&wr, nullptr); error != 0) {
    log_->Violate(absl::StrFormat("posting a shared receive: errno %d", error));
  }
  return true;
}

void FailingHost::Finish() {
  worker().RemovePoller(this);
  std::vector<absl::Status> all;
  if (srq_ != nullptr) {
    const uint32_t home = srq_->depth() + static_cast<uint32_t>(free_receives_.size());
    if (home > kSharedReceives || home + may_be_lost_ < kSharedReceives) {
      log_->Violate(absl::StrFormat("%d of %d shared receives are left, %d may be lost", home,
                                    kSharedReceives, may_be_lost_));
    }
    // A receive that died with its queue pair may have been written to; what lies between may not.
    for (uint32_t i = 0; i < kSharedReceives; ++i) {
      const size_t gap = SharedPlace(i) + kBufferBytes;
      if (!arena_->HoldsWhatIsExpected(gap, kGapBytes)) log_->Violate("a receive overflowed");
    }
    all.push_back(worker().DestroySrq(srq_));
    all.push_back(worker().DeregMr(region_));
  }
  all.push_back(worker().DestroyCq(cq_));
  all.push_back(worker().DeallocPd(pd_));
  for (const absl::Status& status : all) {
    if (!status.ok()) log_->Violate(status.ToString());
  }
  const transport::Counters& counters = worker().counters();
  log_->Digest(counters.sent_pkts);
  log_->Digest(counters.rcvd_bytes);
}

}  // namespace pollux::sim
