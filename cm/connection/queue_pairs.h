// The queue pairs of identifiers: those whose state CM changes, and the user's own.
#ifndef POLLUX_CM_CONNECTION_QUEUE_PAIRS_H_
#define POLLUX_CM_CONNECTION_QUEUE_PAIRS_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "cm/connection/context.h"
#include "cm/connection/events.h"
#include "cm/connection/id.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class QueuePairs {
 public:
  QueuePairs(Context* context, Events* events) : context_(*context), events_(*events) {}

  void Bind(CmConnection& connection, engine::Worker* owner, verbs::QueuePair* qp, int access,
            absl::AnyInvocable<void(absl::Status)> done);
  // Detaches the connection's queue pair; CM does not use it any more.
  static void Release(CmConnection& connection);
  absl::Status QueryAttr(const CmConnection& connection, ibv_qp_attr* attr, int* mask) const;

  // In Connect() or Accept(): uses the user's own queue pair, ConnectionParam::qp_num, if none is
  // bound. FailedPrecondition if there is neither, or if the bound one is not ready.
  static absl::Status Take(CmConnection& connection, const ConnectionParam& param);
  // Whether the connection's queue pair has a shared receive queue; call it after Take().
  static bool HasSrq(const CmConnection& connection, const ConnectionParam& param);

  // Changes the queue pair's state from INIT to RTR to RTS with the negotiated attributes, then
  // calls `done` if the connection still exists and is still in `expected`. Does this at once if
  // this core owns the queue pair.
  using Done = absl::AnyInvocable<void(CmConnection& connection, absl::Status status)>;
  void MoveToRts(CmConnection& connection, State expected, Done done);
  // Does nothing if CM may not touch the queue pair any more. If this core owns it, requests that
  // were already posted are sent first.
  void MoveToError(CmConnection& connection);

 private:
  QpMove::Step ToRtr(const CmConnection& connection) const;

  Context& context_;
  Events& events_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_QUEUE_PAIRS_H_
