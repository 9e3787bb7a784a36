// The queue pairs of identifiers: those that CM moves, and the user's own.
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
  // The connection's queue pair is not touched any more.
  static void Release(CmConnection& connection);
  absl::Status QueryAttr(const CmConnection& connection, ibv_qp_attr* attr, int* mask) const;

  // Takes the user's own queue pair, in Connect or Accept of an identifier without another.
  // FailedPrecondition when there is none at all or it is not ready.
  static absl::Status Take(CmConnection& connection, const ConnectionParam& param);
  // Of the queue pair that Take() has taken.
  static bool HasSrq(const CmConnection& connection, const ConnectionParam& param);

  // Moves the queue pair from INIT to RTR to RTS with the negotiated attributes, then calls `done`
  // if the connection still exists and is still in `expected`. Moves at once if this core owns the
  // queue pair.
  using Done = absl::AnyInvocable<void(CmConnection& connection, absl::Status status)>;
  void MoveToRts(CmConnection& connection, State expected, Done done);
  // Does nothing if CM may not touch the queue pair any more. Posted requests leave first if this
  // core owns it.
  void MoveToError(CmConnection& connection);

 private:
  QpMove::Step ToRtr(const CmConnection& connection) const;

  Context& context_;
  Events& events_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_QUEUE_PAIRS_H_
