#include "tools/failure_log.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/engine/worker.h"
#include "tools/interrupt.h"

namespace pollux::tools {

std::string FailureText(const cm::Endpoint& local, const cm::Endpoint& peer, const std::string& why,
                        const std::string& log) {
  return absl::StrCat("connection ", cm::ToString(local), " to ", cm::ToString(peer),
                      " failed: ", why, "; its last events:\n", log);
}

bool FailureBudget::Take(uint64_t now_ns) {
  if (now_ns - minute_ns_ >= kMinuteNs) {
    minute_ns_ = now_ns;
    taken_ = 0;
  }
  if (taken_ == kPerMinute) {
    ++left_out_;
    return false;
  }
  ++taken_;
  return true;
}

uint64_t FailureBudget::TakeLeftOut() { return std::exchange(left_out_, 0); }

void LogFailures(cm::Manager* manager, engine::Worker* worker) {
  manager->SetFailureHandler([manager, worker, budget = FailureBudget()](
                                 const cm::Id& id, const std::string& why) mutable {
    if (Interrupted() || !budget.Take(worker->now_ns())) return;
    std::string text = FailureText(id.local(), id.peer(), why, manager->FlightLog(id));
    if (const uint64_t left_out = budget.TakeLeftOut(); left_out > 0) {
      absl::StrAppend(&text, left_out, " more connections failed before it\n");
    }
    std::fwrite(text.data(), 1, text.size(), stderr);
  });
}

}  // namespace pollux::tools
