// Requests that wait for Accept() or Reject(), and requests that wait for a listener.
#ifndef POLLUX_CM_CONNECTION_BACKLOG_H_
#define POLLUX_CM_CONNECTION_BACKLOG_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cm/connection/context.h"
#include "cm/connection/relisten_grace_queue.h"
#include "cm/wire/service_id.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Backlog {
 public:
  explicit Backlog(Context* context)
      : context_(*context),
        relisten_grace_(context->config.relisten_ns, context->environment->claims()),
        grace_timer_(&Backlog::OnGraceTimer, this) {}

  bool HasRoomFor(const CmConnection& listener) const {
    return pending_ < context_.config.max_pending_requests && listener.pending < listener.backlog;
  }
  // Creates the connection of a request, which the listener's user may accept or reject. Returns
  // null at max_ids and when memory is short.
  CmConnection* Enter(const Origin& origin, CmConnection& listener, uint16_t source_port);
  // Call it when the request was accepted, rejected or destroyed.
  void Leave(CmConnection& connection);
  uint32_t pending() const { return pending_; }

  // Keeps `request`, for whose service there is no listener, until there is one. Returns false if
  // it is not kept.
  bool AwaitListener(const Origin& origin, const std::optional<ServiceId>& service,
                     const Message& request);
  // Removes and returns the kept requests that have a listener now, and those that have waited for
  // ManagerConfig::relisten_ns.
  std::vector<HeldRequest> TakeDue();
  void ListenerEnded(uint16_t port);
  bool AwaitsListeners() const { return !relisten_grace_.empty(); }

 private:
  static void OnGraceTimer(void* backlog, uint64_t now_ns);
  void ForgetEndedListeners();

  Context& context_;
  uint32_t pending_ = 0;
  RelistenGraceQueue relisten_grace_;
  engine::Timer grace_timer_;  // armed while a listener that has ended is remembered
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_BACKLOG_H_
