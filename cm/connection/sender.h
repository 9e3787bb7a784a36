// Sends CM messages: replies, and messages that are repeated until they are answered.
#ifndef POLLUX_CM_CONNECTION_SENDER_H_
#define POLLUX_CM_CONNECTION_SENDER_H_

#include <cstdint>
#include <utility>

#include "cm/connection/context.h"
#include "cm/connection/id.h"
#include "cm/connection/request_window.h"
#include "cm/wire/mad.h"
#include "cm/wire/reasons.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::cm {

// Owned by the manager, on its core.
class Sender {
 public:
  explicit Sender(Context* context) : context_(*context) {}

  void SetTrace(Trace trace) { trace_ = std::move(trace); }
  void TraceReceived(std::span<const uint8_t> mad) {
    if (trace_ != nullptr) trace_(false, {mad.data(), mad.size()});
  }

  // Send a reply, once.
  void Send(const Origin& origin, const Message& message);
  void Reject(const Origin& origin, uint32_t local_comm_id, uint32_t remote_comm_id,
              AboutMessage about, RejectReason reason);
  void RejectTimedOut(const CmConnection& connection, AboutMessage about);
  void RejectMtu(const Origin& origin, uint32_t remote_comm_id);

  // Sets the message that SendOutstanding() sends, and repeats until the timer is cancelled or the
  // retries are used up.
  void SetOutstanding(CmConnection& connection, const Message& message);
  bool SendOutstanding(CmConnection& connection);      // false: could not be queued
  bool TransmitOutstanding(CmConnection& connection);  // the same without the timer
  // Repeats the message when the timer has fired. Returns false if the retries are used up.
  bool Retry(CmConnection& connection);
  // Repeats the outstanding message of each connection in `state`, if it is of type `attribute`.
  void RepeatAll(State state, Attribute attribute);

  // As SendOutstanding(), once RequestWindow has a place for it.
  void SendRequest(CmConnection& connection);
  // Sends the queued requests that may be sent now. Returns whether there were any.
  bool SendWaiting();
  // Sends up to RequestWindow::kMax of the queued DREQs without waiting for a place. Returns
  // whether there were any.
  bool SendWaitingDisconnects();
  // Removes the connection's request from the queue if it is still there.
  void LeaveWindow(CmConnection& connection);
  bool HasWaiting() const { return window_.waiting() > 0; }

 private:
  bool SendMad(const Gid& from, const Gid& to, const MadBuffer& mad);  // false: could not be queued
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
