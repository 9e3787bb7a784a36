// What leaves: answers, and messages that are sent again until they are answered.
#ifndef POLLUX_CM_CONNECTION_SENDER_H_
#define POLLUX_CM_CONNECTION_SENDER_H_

#include <cstdint>
#include <utility>

#include "cm/connection/context.h"
#include "cm/connection/id.h"
#include "cm/connection/request_window.h"
#include "cm/wire/mad.h"
#include "cm/wire/reasons.h"
#include "stack/engine/loop/timing_wheel.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Sender {
 public:
  explicit Sender(Context* context) : context_(*context) {}

  void SetTrace(Trace trace) { trace_ = std::move(trace); }
  void TraceReceived(std::span<const uint8_t> mad) {
    if (trace_ != nullptr) trace_(false, {mad.data(), mad.size()});
  }

  // Answers.
  void Send(const Origin& origin, const Message& message);
  void Reject(const Origin& origin, uint32_t local_comm_id, uint32_t remote_comm_id,
              AboutMessage about, RejectReason reason);
  void RejectTimedOut(const Connection& connection, AboutMessage about);
  void RejectMtu(const Origin& origin, uint32_t remote_comm_id);

  // What SendOutstanding() sends, and sends again until something cancels the timer or the retries
  // are used up.
  void SetOutstanding(Connection& connection, const Message& message);
  bool SendOutstanding(Connection& connection);      // false: not queued this time
  bool TransmitOutstanding(Connection& connection);  // and no timer
  // The timer has fired: sends it again. False when the retries are used up.
  bool Retry(Connection& connection);
  // Of all connections in `state`, where it is an `attribute`.
  void RepeatAll(State state, Attribute attribute);

  // As SendOutstanding(), when it is its turn.
  void SendRequest(Connection& connection);
  // Whose turn it is now; whether there was one.
  bool SendWaiting();
  // One that waits for its turn, at once. Whether there was one that could.
  bool SendWaitingDisconnects();
  // The connection's request, should it still wait for its turn, is not sent any more.
  void LeaveWindow(Connection& connection);
  bool HasWaiting() const { return window_.waiting() > 0; }

 private:
  bool SendMad(const Gid& from, const Gid& to, const MadBuffer& mad);  // false: not queued
  void RecordSent(const Message& message);
  bool IsUnanswered(uint32_t comm_id) const;
  static void WindowTimerFired(void* sender, uint64_t now_ns);

  Context& context_;
  Trace trace_;
  RequestWindow window_;
  engine::Timer window_timer_{&Sender::WindowTimerFired, this};
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_SENDER_H_
