// What comes in, and what goes out.
#include <algorithm>
#include <optional>
#include <utility>

#include "cm/connection/flight_text.h"
#include "cm/connection/manager_impl.h"
#include "cm/connection/timeouts.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {

void ManagerImpl::OnMad(const Gid& from, const Gid& to, std::span<const uint8_t> mad) {
  DeliverDeferred();  // before what comes after it
  if (trace_ != nullptr) trace_(false, {mad.data(), mad.size()});
  const std::optional<MadHeader> header = ParseMadHeader(mad);
  if (!header) return CountDrop(MadDrop::kBadLength);
  if (header->base_version != kMadBaseVersion || header->management_class != kMadClassCm ||
      header->class_version != kMadClassVersionCm || header->method != kMadMethodSend) {
    CountDrop(MadDrop::kBadHeader);
    return RejectClassVersion({from, to, header->transaction_id}, *header, mad);
  }
  const std::optional<Mad> parsed = ParseMad(mad);
  if (!parsed) return CountDrop(MadDrop::kUnknownAttribute);
  ++environment_->counters().of(header->attribute).received;
  const Origin origin{from, to, header->transaction_id};
  RecordReceived(from, parsed->message);
  std::visit([&](const auto& message) { Handle(origin, message); }, parsed->message);
}

void ManagerImpl::RejectClassVersion(const Origin& origin, const MadHeader& header,
                                     std::span<const uint8_t> mad) {
  if (header.base_version != kMadBaseVersion || header.management_class != kMadClassCm ||
      header.class_version == kMadClassVersionCm || header.method != kMadMethodSend ||
      header.attribute != Attribute::kReq) {
    return;
  }
  // Whatever its layout, its sender's ID comes first.
  Reject(origin, 0, LoadBe32(&mad[kMadHeaderBytes]), AboutMessage::kReq,
         RejectReason::kInvalidClassVersion);
}

CmConnection* ManagerImpl::FindFor(const Origin& origin, uint32_t senders_id,
                                   uint32_t receivers_id) {
  CmConnection* connection = table_.Find(receivers_id);
  if (connection == nullptr) {
    CountDrop(MadDrop::kUnknownCommId);
    return nullptr;
  }
  // Before its REP or REJ the peer's communication ID is not known.
  const bool knows_peer = connection->remote_comm_id != 0;
  if (connection->peer().address != origin.from ||
      (knows_peer && senders_id != connection->remote_comm_id)) {
    CountDrop(MadDrop::kWrongPeer);
    return nullptr;
  }
  return connection;
}

bool ManagerImpl::IsForgotten(uint32_t local_comm_id) const {
  const CmConnection* connection = table_.Find(local_comm_id);
  return connection == nullptr || connection->state == State::kClosed;
}

void ManagerImpl::Handle(const Origin& origin, const Lap& lap) {
  Apr apr;
  apr.local_comm_id = lap.remote_comm_id;
  apr.remote_comm_id = lap.local_comm_id;
  apr.ap_status = FindFor(origin, lap.local_comm_id, lap.remote_comm_id) != nullptr
                      ? kAprStatusUnsupported
                      : kAprStatusInvalidCommId;
  Send(origin, apr);
}

void ManagerImpl::Handle(const Origin& /*origin*/, const Apr& /*apr*/) {
  CountDrop(MadDrop::kWrongState);
}

bool ManagerImpl::SendMad(const Gid& from, const Gid& to, const MadBuffer& mad) {
  if (!environment_->SendMad(from, to, mad)) return false;
  if (trace_ != nullptr) trace_(true, mad);
  return true;
}

void ManagerImpl::Send(const Origin& origin, const Message& message) {
  MadHeader header;
  header.transaction_id = origin.transaction_id;
  header.attribute = std::visit([](const auto& m) { return m.kAttribute; }, message);
  MadBuffer mad;
  EmitMad(header, message, mad);
  if (!SendMad(origin.to, origin.from, mad)) return;
  ++environment_->counters().of(header.attribute).sent;
  RecordSent(message);
}

void ManagerImpl::SetOutstanding(CmConnection& connection, const Message& message) {
  MadHeader header;
  header.transaction_id = connection.transaction_id;
  EmitMad(header, message, connection.outstanding);
  connection.outstanding_attribute =
      std::visit([](const auto& m) { return m.kAttribute; }, message);
  connection.retries_left = connection.max_retries;
}

bool ManagerImpl::TransmitOutstanding(CmConnection& connection) {
  if (!SendMad(connection.local().address, connection.peer().address, connection.outstanding)) {
    return false;
  }
  ++environment_->counters().of(connection.outstanding_attribute).sent;
  RecordMad(connection, kFlightMadSent, connection.outstanding_attribute, 0);
  return true;
}

bool ManagerImpl::IsUnanswered(uint32_t comm_id) const {
  const CmConnection* connection = table_.Find(comm_id);
  if (connection == nullptr || connection->mra_heard) return false;
  return connection->state == State::kReqSent || connection->state == State::kSidrReqSent ||
         connection->state == State::kDreqSent;
}

void ManagerImpl::SendRequest(CmConnection& connection) {
  connection.mra_heard = false;
  connection.waits = !window_.Enter(connection.local_comm_id, environment_->now_ns(),
                                    [this](uint32_t comm_id) { return IsUnanswered(comm_id); });
  if (!connection.waits) {
    SendOutstanding(connection);
    return;
  }
  connection.timer.Cancel();  // of the message before
  if (!window_timer_.armed()) environment_->wheel().Arm(window_timer_, window_.deadline_ns());
}

bool ManagerImpl::SendWaiting() {
  if (window_.waiting() == 0) return false;
  bool any = false;
  while (const auto comm_id = window_.Next(environment_->now_ns(),
                                           [this](uint32_t id) { return IsUnanswered(id); })) {
    any = true;
    if (!IsUnanswered(*comm_id)) continue;  // a peer has guessed its number
    CmConnection& connection = *table_.Find(*comm_id);
    connection.waits = false;
    SendOutstanding(connection);
  }
  if (window_.waiting() == 0) {
    window_timer_.Cancel();
  } else if (any || !window_timer_.armed()) {
    // Also when it has fired for one that was answered, whose place another took since.
    environment_->wheel().Arm(window_timer_, window_.deadline_ns());
  }
  return any;
}

void ManagerImpl::LeaveWindow(CmConnection& connection) {
  if (std::exchange(connection.waits, false)) window_.Cancel(connection.local_comm_id);
}

bool ManagerImpl::SendOutstanding(CmConnection& connection) {
  const bool sent = TransmitOutstanding(connection);
  connection.mra_heard = false;
  environment_->wheel().Arm(connection.timer, environment_->now_ns() + connection.resend_after_ns);
  return sent;
}

void ManagerImpl::Reject(const Origin& origin, uint32_t local_comm_id, uint32_t remote_comm_id,
                         AboutMessage about, RejectReason reason) {
  Rej rej;
  rej.local_comm_id = local_comm_id;
  rej.remote_comm_id = remote_comm_id;
  rej.message_rejected = static_cast<uint8_t>(about);
  rej.reason = static_cast<uint16_t>(reason);
  Send(origin, rej);
}

void ManagerImpl::RejectTimedOut(const CmConnection& connection, AboutMessage about) {
  Rej rej;
  rej.local_comm_id = connection.local_comm_id;
  rej.remote_comm_id = connection.remote_comm_id;
  rej.message_rejected = static_cast<uint8_t>(about);
  rej.reason = static_cast<uint16_t>(RejectReason::kTimeout);
  // The peer, whose communication ID may not be known, finds the connection by the CA GUID.
  rej.reject_info_length = sizeof(uint64_t);
  StoreBe64(rej.ari.data(), environment_->ca_guid());
  Send(PeerOf(connection), rej);
}

void ManagerImpl::RejectMtu(const Origin& origin, uint32_t remote_comm_id) {
  Rej rej;
  rej.remote_comm_id = remote_comm_id;
  rej.message_rejected = static_cast<uint8_t>(AboutMessage::kReq);
  rej.reason = static_cast<uint16_t>(RejectReason::kInvalidMtu);
  // The largest that is possible.
  rej.reject_info_length = 1;
  rej.ari[0] = static_cast<uint8_t>(environment_->active_mtu());
  Send(origin, rej);
}

}  // namespace pollux::cm
