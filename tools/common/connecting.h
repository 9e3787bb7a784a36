// Connects a client within a time limit.
#ifndef POLLUX_TOOLS_COMMON_CONNECTING_H_
#define POLLUX_TOOLS_COMMON_CONNECTING_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cm/manager.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::tools {

struct ConnectLimits {
  uint32_t timeout_ms = 20'000;
  // Called repeatedly while connecting; if it returns true, connecting is cancelled. Optional.
  bool (*cancelled)() = nullptr;
};

// A connection attempt, which passes on the client when it is connected and gives up when the time
// has passed. Deletes itself. `Client` has Connect() like rpcrdma::Client, but without the callback
// for the end. The client is passed on as a pointer to its base `Given`.
template <class Client, class Given = Client>
class Connecting {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<Given>>)>;

  // Call it on the worker's core. `done` is called once, not during this call, with the connected
  // client, or with an error: that of `client`, that of Connect(), DeadlineExceeded or Cancelled.
  static void Start(engine::Worker* worker, absl::StatusOr<std::unique_ptr<Client>> client,
                    const SocketAddress& server, const ConnectLimits& limits, Done done) {
    auto* connecting = new Connecting(worker, limits, ToString(server), std::move(done));
    if (!client.ok()) return connecting->Finish(client.status());
    connecting->client_ = *std::move(client);
    connecting->ArmTimer();
    const absl::Status status = connecting->client_->Connect(
        server, [connecting](absl::Status result) { connecting->Finish(std::move(result)); });
    if (!status.ok()) connecting->Finish(status);
  }

 private:
  static constexpr uint64_t kNsPerMs = 1'000'000;
  static constexpr uint64_t kAskIntervalNs = 100 * kNsPerMs;

  Connecting(engine::Worker* worker, const ConnectLimits& limits, std::string server, Done done)
      : worker_(worker),
        limits_(limits),
        server_(std::move(server)),
        done_(std::move(done)),
        timer_(&Connecting::OnTimeout, this),
        deadline_ns_(worker->now_ns() + limits.timeout_ms * kNsPerMs) {}

  void ArmTimer() {
    const uint64_t ask_ns = worker_->now_ns() + kAskIntervalNs;
    worker_->wheel().Arm(timer_, limits_.cancelled ? std::min(ask_ns, deadline_ns_) : deadline_ns_);
  }
  static void OnTimeout(void* self, uint64_t now_ns) {
    auto* connecting = static_cast<Connecting*>(self);
    if (connecting->limits_.cancelled && connecting->limits_.cancelled()) {
      return connecting->Finish(absl::CancelledError("interrupted"));
    }
    if (now_ns < connecting->deadline_ns_) return connecting->ArmTimer();
    connecting->Finish(absl::DeadlineExceededError(
        absl::StrCat("no connection to ", connecting->server_,
                     " in time; is a server running there, and can it be reached?")));
  }

  // Deferred, because neither the client nor this object may be destroyed while one of their
  // callbacks runs.
  void Finish(absl::Status status) {
    if (finished_) return;
    finished_ = true;
    timer_.Cancel();
    engine::Actor::Post(*worker_, [this, status = std::move(status)]() mutable {
      if (status.ok()) {
        done_(std::move(client_));
      } else {
        client_.reset();
        done_(std::move(status));
      }
      delete this;
    });
  }

  engine::Worker* worker_;
  const ConnectLimits limits_;
  const std::string server_;
  Done done_;
  engine::Timer timer_;
  const uint64_t deadline_ns_;
  std::unique_ptr<Client> client_;
  bool finished_ = false;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_CONNECTING_H_
