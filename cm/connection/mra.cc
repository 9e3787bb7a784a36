// Message receipt acknowledgements: one side asks the other for more time. Source: IB specification
// volume 1, section 12.6.6.
#include <algorithm>

#include "cm/connection/manager_impl.h"
#include "cm/connection/timeouts.h"

namespace pollux::cm {

absl::Status ManagerImpl::SendMra(Id* id, uint8_t service_timeout) {
  const CmConnection& connection = Of(id);
  switch (connection.state) {
    case State::kReqRcvd:
    case State::kRepPending:
    case State::kRepRcvd:
      AskForTime(connection, service_timeout);
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError(
          "send MRA: the peer does not wait for an answer of this identifier");
  }
}

void ManagerImpl::AskForTime(const CmConnection& connection, uint8_t service_timeout) {
  Mra mra;
  mra.local_comm_id = connection.local_comm_id;
  mra.remote_comm_id = connection.remote_comm_id;
  mra.message_mraed = static_cast<uint8_t>(
      connection.state == State::kRepRcvd ? AboutMessage::kRep : AboutMessage::kReq);
  mra.service_timeout = std::min(service_timeout, kMaxTimeoutCode);
  Send(PeerOf(connection), mra);
}

void ManagerImpl::Handle(const Origin& origin, const Mra& mra) {
  CmConnection* connection = FindFor(origin, mra.local_comm_id, mra.remote_comm_id);
  if (connection == nullptr) return;
  const auto about = static_cast<AboutMessage>(mra.message_mraed);
  const bool expected = (connection->state == State::kReqSent && about == AboutMessage::kReq) ||
                        (connection->state == State::kRepSent && about == AboutMessage::kRep);
  if (!expected) return CountDrop(MadDrop::kWrongState);
  // Once a sending, or a peer that repeats it would keep the connection waiting for ever.
  if (connection->mra_heard) return CountDuplicate(Attribute::kMra);
  connection->mra_heard = true;
  // The peer asks for this much time; what it then sends needs a packet's lifetime to arrive.
  environment_->wheel().Arm(
      connection->timer,
      environment_->now_ns() + ResendAfterNs(config_.packet_lifetime, mra.service_timeout));
}

}  // namespace pollux::cm
