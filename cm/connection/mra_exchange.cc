#include "cm/connection/mra_exchange.h"

#include <algorithm>

#include "cm/connection/timeouts.h"

namespace pollux::cm {

absl::Status MraExchange::Ask(const Connection& connection, uint8_t service_timeout) {
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

void MraExchange::AskForTime(const Connection& connection, uint8_t service_timeout) {
  Mra mra;
  mra.local_comm_id = connection.local_comm_id;
  mra.remote_comm_id = connection.remote_comm_id;
  mra.message_mraed = static_cast<uint8_t>(
      connection.state == State::kRepRcvd ? AboutMessage::kRep : AboutMessage::kReq);
  mra.service_timeout = std::min(service_timeout, kMaxTimeoutCode);
  sender_.Send(PeerOf(connection), mra);
}

void MraExchange::Handle(const Origin& origin, const Mra& mra) {
  Connection* connection = context_.FindFor(origin, mra.local_comm_id, mra.remote_comm_id);
  if (connection == nullptr) return;
  const auto about = static_cast<AboutMessage>(mra.message_mraed);
  const bool expected = (connection->state == State::kReqSent && about == AboutMessage::kReq) ||
                        (connection->state == State::kRepSent && about == AboutMessage::kRep);
  if (!expected) return context_.CountDrop(MadDrop::kWrongState);
  // Once a sending, or a peer that repeats it would keep the connection waiting for ever.
  if (connection->mra_heard) return context_.CountDuplicate(Attribute::kMra);
  connection->mra_heard = true;
  // The peer asks for this much time; what it then sends needs a packet's lifetime to arrive.
  context_.ArmTimer(*connection,
                    ResendAfterNs(context_.config.packet_lifetime, mra.service_timeout));
}

}  // namespace pollux::cm
