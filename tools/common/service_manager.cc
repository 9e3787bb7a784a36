#include "tools/common/service_manager.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

constexpr int kMaxHeartbeatMs = 1000;
// sd_watchdog_enabled(3) recommends half of the manager's timeout; this leaves room for a late
// one.
constexpr uint64_t kHeartbeatsInTime = 3;

}  // namespace

ServiceManager::ServiceManager(Node* node) : node_(node), heartbeat_ms_(kMaxHeartbeatMs) {
  uint64_t timeout_us = 0;
  watched_ = sd_watchdog_enabled(0, &timeout_us) > 0;
  if (watched_) {
    heartbeat_ms_ = static_cast<int>(
        std::clamp<uint64_t>(timeout_us / 1000 / kHeartbeatsInTime, 1, kMaxHeartbeatMs));
  }
  sd_notify(0, "READY=1");
}

ServiceManager::~ServiceManager() { sd_notify(0, "STOPPING=1"); }

void ServiceManager::Reloading() {
  // CLOCK_MONOTONIC, as sd_notify(3) wants it.
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  sd_notify(0, absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", now_us).c_str());
}

void ServiceManager::Reloaded() { sd_notify(0, "READY=1"); }

void ServiceManager::Heartbeat() {
  if (!watched_) return;
  node_->RunOnEach([](uint32_t /*core*/) {});
  sd_notify(0, "WATCHDOG=1");
}

}  // namespace pollux::tools
