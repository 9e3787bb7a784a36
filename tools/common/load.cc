#include "tools/common/load.h"

#include <algorithm>
#include <utility>

namespace pollux::tools {

LoadResult Together(absl::Span<const LoadResult> loads) {
  LoadResult all;
  for (const LoadResult& one : loads) {
    all.status.Update(one.status);
    all.operations += one.operations;
    all.elapsed_ns = std::max(all.elapsed_ns, one.elapsed_ns);
    all.latency_ns->Add(*one.latency_ns);
  }
  return all;
}

Load::Load(const LoadOptions& options, Clock clock_ns, Begin begin,
           absl::AnyInvocable<void(LoadResult)> done)
    : options_(options),
      clock_ns_(std::move(clock_ns)),
      begin_(std::move(begin)),
      done_(std::move(done)) {
  const uint32_t window = std::clamp(options.window, 1u, LoadOptions::kMaxWindow);
  due_ns_.resize(window);
  for (uint32_t slot = window; slot > 0; --slot) free_.push_back(slot - 1);
}

// When the next operation was or is due; false when it is not due yet, or there is none.
bool Load::Due(uint64_t now_ns, uint64_t* due_ns) {
  if (stopped_ || begun_ == options_.count) return false;
  *due_ns = now_ns;
  if (options_.per_second > 0) {
    *due_ns =
        start_ns_ + static_cast<uint64_t>(static_cast<double>(begun_) * 1e9 / options_.per_second);
  }
  // In an open loop those that were due before the limit are begun however late.
  if (options_.limit_ns != 0 && *due_ns - start_ns_ > options_.limit_ns) stopped_ = true;
  return !stopped_ && *due_ns <= now_ns;
}

bool Load::Turn() { return !free_.empty() && TurnAt(clock_ns_()); }

bool Load::TurnAt(uint64_t now_ns) {
  if (turning_ || done_ == nullptr) return false;
  turning_ = true;
  if (!std::exchange(started_, true)) start_ns_ = now_ns;
  const uint64_t begun_before = begun_;
  uint64_t due_ns = 0;
  while (!free_.empty() && Due(now_ns, &due_ns)) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    due_ns_[slot] = due_ns;
    ++begun_;
    begin_(slot);
  }
  turning_ = false;
  const bool began = begun_ != begun_before;
  FinishIfIdle();
  return began;
}

void Load::Ended(uint32_t slot, const absl::Status& status) {
  const uint64_t now_ns = clock_ns_();
  free_.push_back(slot);
  if (!status.ok()) {
    stopped_ = true;
    result_.status.Update(status);
  } else if (!was_told_to_stop_) {
    result_.latency_ns->Record(now_ns - std::min(now_ns, due_ns_[slot]));
    ++result_.operations;
    result_.elapsed_ns = now_ns - start_ns_;
  }
  TurnAt(now_ns);
}

void Load::Stop(const absl::Status& status) {
  stopped_ = was_told_to_stop_ = true;
  result_.status.Update(status);
  FinishIfIdle();
}

void Load::FinishIfIdle() {
  const bool all_begun = stopped_ || begun_ == options_.count;
  if (turning_ || done_ == nullptr || !all_begun || free_.size() < due_ns_.size()) return;
  // The callback may destroy this.
  auto done = std::exchange(done_, nullptr);
  done(std::move(result_));
}

}  // namespace pollux::tools
