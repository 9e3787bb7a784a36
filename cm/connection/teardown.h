// The end of connections: received REJs, DREQ and DREP, and time-wait.
#ifndef POLLUX_CM_CONNECTION_TEARDOWN_H_
#define POLLUX_CM_CONNECTION_TEARDOWN_H_

#include <cstddef>
#include <cstdint>

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
  // Gives the DREQ of a newly established connection to the keeper until the connection ends.
  void KeepDreq(CmConnection& connection);
  size_t unanswered_disconnects() const;
  void EnterClosed(CmConnection& connection);  // and removes it if it is destroyed
  void EnterTimeWait(CmConnection& connection);
  void OnTimeWaitOver(CmConnection& connection);
  void OnRetriesUsedUp(CmConnection& connection);
  // Ends a half-open connection to make room for another one. Sends a REJ, because the peer may
  // have sent its RTU.
  void GiveUpHalfOpen(CmConnection& connection);
  // At max_ids, forgets the oldest destroyed identifiers, whose DREQ is unanswered or which are in
  // time-wait: those of the address that has the most of them, or of all if none has many.
  void MakeRoom();
  // Ends a connection without a usable queue pair: rejects the peer's message `about`.
  void EndWithoutQp(CmConnection& connection, AboutMessage about);
  // Called when the user has detached the queue pair from the connection.
  void OnQpReleased(CmConnection& connection);
  // Ends `old`, because its peer, or a host that claims to be it, uses the queue pair of `old` in
  // another connection. Returns true if `old` has ended already and the number is free; false if a
  // DREQ must be answered first.
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
  uint64_t next_look_ns_ = 0;  // of MakeRoom()
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_TEARDOWN_H_
