// How connections end: REJ in, DREQ and DREP, time-wait.
#ifndef POLLUX_CM_CONNECTION_TEARDOWN_H_
#define POLLUX_CM_CONNECTION_TEARDOWN_H_

#include <cstddef>

#include "absl/status/status.h"
#include "cm/connection/backlog.h"
#include "cm/connection/context.h"
#include "cm/connection/events.h"
#include "cm/connection/half_open.h"
#include "cm/connection/queue_pairs.h"
#include "cm/connection/sender.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Teardown {
 public:
  Teardown(Context* context, Events* events, Sender* sender, QueuePairs* queue_pairs,
           Backlog* backlog, HalfOpen* half_open)
      : context_(*context),
        events_(*events),
        sender_(*sender),
        queue_pairs_(*queue_pairs),
        backlog_(*backlog),
        half_open_(*half_open) {}

  absl::Status Disconnect(CmConnection& connection);
  void StartDisconnect(CmConnection& connection);
  // Has the keeper keep the DREQ of a connection that is up now, until the connection is over.
  void KeepDreq(CmConnection& connection);
  size_t unanswered_disconnects() const;
  void EnterClosed(CmConnection& connection);  // forgets the peer; frees it when destroyed
  void EnterTimeWait(CmConnection& connection);
  void OnTimeWaitOver(CmConnection& connection);
  void OnRetriesUsedUp(CmConnection& connection);
  // For another one. Its peer may have sent its RTU, and is told.
  void GiveUpHalfOpen(CmConnection& connection);
  // The peer, which waits for an answer to `about`, hears that there is no queue pair.
  void EndWithoutQp(CmConnection& connection, AboutMessage about);
  // Its user has taken the queue pair from the connection.
  void OnQpReleased(CmConnection& connection);
  // The peer of `old`, or someone who claims to be it, gives the queue pair of `old` to another
  // connection: it has forgotten `old`, which ends. True when it is over already, and the other one
  // may have the number; false when a DREQ must be answered first.
  bool EndStale(CmConnection& old);

  void Handle(const Origin& origin, const Dreq& dreq);
  void Handle(const Origin& origin, const Drep& drep);
  void OnRejected(CmConnection& connection, const Rej& rej);

 private:
  void ForgetDreq(CmConnection& connection);

  Context& context_;
  Events& events_;
  Sender& sender_;
  QueuePairs& queue_pairs_;
  Backlog& backlog_;
  HalfOpen& half_open_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_TEARDOWN_H_
