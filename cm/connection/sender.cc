#include "cm/connection/sender.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "cm/connection/flight_text.h"
#include "cm/connection/timeouts.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {

bool Sender::SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) {
  if (!context_.environment->SendMad(from, to, mad)) return false;
  if (trace_ != nullptr) trace_(true, mad);
  return true;
}

void Sender::Send(const Origin& origin, const Message& message) {
  MadHeader header;
  header.transaction_id = origin.transaction_id;
  header.attribute = std::visit([](const auto& m) { return m.kAttribute; }, message);
  MadBuffer mad;
  EmitMad(header, message, mad);
  if (!SendMad(origin.to, origin.from, mad)) return;
  ++context_.environment->counters().of(header.attribute).sent;
  RecordSent(message);
}

void Sender::RecordSent(const Message& message) {
  std::visit(
      [&](const auto& sent) {
        if constexpr (requires { sent.local_comm_id; }) {
          CmConnection* const connection = context_.table.Find(sent.local_comm_id);
          if (connection == nullptr) return;
          context_.RecordMad(*connection, kFlightMadSent, sent.kAttribute, ReasonOf(sent));
        }
      },
      message);
}

void Sender::Reject(const Origin& origin, uint32_t local_comm_id, uint32_t remote_comm_id,
                    AboutMessage about, RejectReason reason) {
  Rej rej;
  rej.local_comm_id = local_comm_id;
  rej.remote_comm_id = remote_comm_id;
  rej.message_rejected = static_cast<uint8_t>(about);
  rej.reason = static_cast<uint16_t>(reason);
  Send(origin, rej);
}

void Sender::RejectTimedOut(const CmConnection& connection, AboutMessage about) {
  Rej rej;
  rej.local_comm_id = connection.local_comm_id;
  rej.remote_comm_id = connection.remote_comm_id;
  rej.message_rejected = static_cast<uint8_t>(about);
  rej.reason = static_cast<uint16_t>(RejectReason::kTimeout);
  // The peer, whose communication ID may not be known, finds the connection by the CA GUID.
  rej.reject_info_length = sizeof(uint64_t);
  StoreBe64(rej.ari.data(), context_.environment->ca_guid());
  Send(PeerOf(connection), rej);
}

void Sender::RejectMtu(const Origin& origin, uint32_t remote_comm_id) {
  Rej rej;
  rej.remote_comm_id = remote_comm_id;
  rej.message_rejected = static_cast<uint8_t>(AboutMessage::kReq);
  rej.reason = static_cast<uint16_t>(RejectReason::kInvalidMtu);
  // The largest that is possible.
  rej.reject_info_length = 1;
  rej.ari[0] = static_cast<uint8_t>(context_.environment->active_mtu());
  Send(origin, rej);
}

void Sender::SetOutstanding(CmConnection& connection, const Message& message) {
  MadHeader header;
  header.transaction_id = connection.transaction_id;
  EmitMad(header, message, connection.outstanding);
  connection.outstanding_attribute =
      std::visit([](const auto& m) { return m.kAttribute; }, message);
  connection.retries_left = connection.max_retries;
}

bool Sender::TransmitOutstanding(CmConnection& connection) {
  if (!SendMad(connection.local().address, connection.peer().address, connection.outstanding)) {
    return false;
  }
  ++context_.environment->counters().of(connection.outstanding_attribute).sent;
  context_.RecordMad(connection, kFlightMadSent, connection.outstanding_attribute, 0);
  return true;
}

bool Sender::SendOutstanding(CmConnection& connection) {
  const bool sent = TransmitOutstanding(connection);
  // For a REP, an MRA counts once.
  if (connection.state != State::kRepSent) connection.mra_heard = false;
  // Connections that are half-open or ending are not held for as long as their peers may ask for.
  const uint64_t own_ns =
      ResendAfterNs(context_.config.packet_lifetime, context_.config.cm_response_timeout);
  context_.ArmTimer(connection, std::min(connection.resend_after_ns, own_ns));
  return sent;
}

bool Sender::Retry(CmConnection& connection) {
  if (connection.retries_left == 0) return false;
  --connection.retries_left;
  if (SendOutstanding(connection)) {
    ++context_.environment->counters().of(connection.outstanding_attribute).retries;
  }
  return true;
}

void Sender::RepeatAll(State state, Attribute attribute) {
  std::vector<uint32_t> those;
  context_.table.Visit([&](const CmConnection& one) {
    if (one.state == state && one.outstanding_attribute == attribute && !one.waits) {
      those.push_back(one.local_comm_id);
    }
  });
  for (const uint32_t comm_id : those) {
    if (!TransmitOutstanding(*context_.table.Find(comm_id))) continue;
    ++context_.environment->counters().of(attribute).retries;
  }
}

bool Sender::IsUnanswered(uint32_t comm_id) const {
  const CmConnection* connection = context_.table.Find(comm_id);
  if (connection == nullptr || connection->mra_heard) return false;
  return connection->state == State::kReqSent || connection->state == State::kSidrReqSent ||
         connection->state == State::kDreqSent;
}

void Sender::SendRequest(CmConnection& connection) {
  connection.mra_heard = false;
  connection.waits = !window_.Enter(connection.local_comm_id, context_.now_ns(),
                                    [this](uint32_t comm_id) { return IsUnanswered(comm_id); });
  if (!connection.waits) {
    SendOutstanding(connection);
    return;
  }
  connection.timer.Cancel();  // of the message before
  context_.environment->Wake();
  if (!window_timer_.armed()) {
    context_.environment->wheel().Arm(window_timer_, window_.deadline_ns());
  }
}

bool Sender::SendWaiting() {
  if (window_.waiting() == 0) return false;
  bool any = false;
  while (const auto comm_id =
             window_.Next(context_.now_ns(), [this](uint32_t id) { return IsUnanswered(id); })) {
    any = true;
    if (!IsUnanswered(*comm_id)) continue;  // a peer has guessed its number
    CmConnection& connection = *context_.table.Find(*comm_id);
    connection.waits = false;
    SendOutstanding(connection);
  }
  if (window_.waiting() == 0) {
    window_timer_.Cancel();
  } else if (any || !window_timer_.armed()) {
    // Also when it has fired for one that was answered, whose place another took since.
    context_.environment->wheel().Arm(window_timer_, window_.deadline_ns());
  }
  return any;
}

bool Sender::SendWaitingDisconnects() {
  std::vector<uint32_t> those;
  context_.table.Visit([&](const CmConnection& one) {
    if (one.state == State::kDreqSent && one.waits && those.size() < RequestWindow::kMax) {
      those.push_back(one.local_comm_id);
    }
  });
  for (const uint32_t comm_id : those) {
    CmConnection& connection = *context_.table.Find(comm_id);
    LeaveWindow(connection);
    SendOutstanding(connection);
  }
  return !those.empty();
}

void Sender::LeaveWindow(CmConnection& connection) {
  if (std::exchange(connection.waits, false)) window_.Cancel(connection.local_comm_id);
}

void Sender::WindowTimerFired(void* sender, uint64_t /*now_ns*/) {
  static_cast<Sender*>(sender)->SendWaiting();
}

}  // namespace pollux::cm
