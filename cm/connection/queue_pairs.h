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

  void Bind(Connection& connection, engine::Worker* owner, verbs::QueuePair* qp, int access,
            absl::AnyInvocable<void(absl::Status)> done);
  // The connection's queue pair is not touched any more.
  static void Release(Connection& connection);
  absl::Status QueryAttr(const Connection& connection, ibv_qp_attr* attr, int* mask) const;

  // Takes the user's own queue pair, in Connect or Accept of an identifier without another.
  // FailedPrecondition when there is none at all or it is not ready.
  static absl::Status Take(Connection& connection, const ConnectionParam& param);
  // Of the queue pair that Take() has taken.
  static bool HasSrq(const Connection& connection, const ConnectionParam& param);

  // INIT to RTR to RTS with what has been agreed; then `done` if the connection still is and is
  // still in `expected`. At once where this core owns the queue pair.
  using Done = absl::AnyInvocable<void(Connection& connection, absl::Status status)>;
  void MoveToRts(Connection& connection, State expected, Done done);
  // If CM may still touch it. What is posted leaves first, where this core owns it.
  void MoveToError(Connection& connection);

 private:
  QpMove::Step ToRtr(const Connection& connection) const;

  Context& context_;
  Events& events_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_QUEUE_PAIRS_H_
