#include "tools/common/failure_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/engine/loop/worker.h"
#include "tools/common/interrupt.h"

namespace pollux::tools {

std::string FailureText(const SocketAddress& local, const SocketAddress& peer,
                        const std::string& why, const std::string& events) {
  std::string text =
      absl::StrCat("connection ", ToString(local), " to ", ToString(peer), " failed: ", why);
  absl::StrAppend(&text, events.empty() ? "" : "; its last events:", "\n", events);
  return text;
}

FailureLog::FailureLog(cm::Manager* manager, engine::Worker* worker, LineLog* log, bool with_events)
    : manager_(manager), worker_(worker), log_(log), with_events_(with_events) {
  manager->SetFailureHandler([this](const cm::Id& id, const std::string& why) { Write(id, why); });
}

void FailureLog::Write(const cm::Id& id, const std::string& why) {
  if (Interrupted() || !budget_.Take(worker_->now_ns())) return;
  std::string text =
      FailureText(id.local(), id.peer(), why, with_events_ ? manager_->FlightLog(id) : "");
  if (const uint64_t left_out = budget_.TakeLeftOut(); left_out > 0) {
    absl::StrAppend(&text, left_out, " more connections failed before this one\n");
  }
  log_->Write(LogLevel::kWarning, "cm", text);
  written_.push_back(id.peer());
  if (written_.size() > kMaxWritten) written_.pop_front();
}

bool FailureLog::TakeWritten(const SocketAddress& peer) {
  const auto found = std::ranges::find(written_, peer);
  if (found == written_.end()) return false;
  written_.erase(found);
  return true;
}

}  // namespace pollux::tools
