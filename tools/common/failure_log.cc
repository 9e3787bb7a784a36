#include "tools/common/failure_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/base/log_rate_limiter.h"
#include "stack/engine/loop/worker.h"
#include "tools/common/interrupt.h"

namespace pollux::tools {

std::string FailureText(const SocketAddress& local, const SocketAddress& peer,
                        const std::string& why, const std::string& log) {
  return absl::StrCat("connection ", ToString(local), " to ", ToString(peer), " failed: ", why,
                      "; its last events:\n", log);
}

void LogFailures(cm::Manager* manager, engine::Worker* worker, LineLog* log) {
  manager->SetFailureHandler([manager, worker, log, budget = LogRateLimiter(kFailuresPerMinute)](
                                 const cm::Id& id, const std::string& why) mutable {
    if (Interrupted() || !budget.Take(worker->now_ns())) return;
    std::string text = FailureText(id.local(), id.peer(), why, manager->FlightLog(id));
    if (const uint64_t left_out = budget.TakeLeftOut(); left_out > 0) {
      absl::StrAppend(&text, left_out, " more connections failed before it\n");
    }
    log->Write(std::move(text));
  });
}

}  // namespace pollux::tools
