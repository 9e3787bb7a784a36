#include "tools/decode/rpc_connections.h"

#include <variant>

#include "cm/wire/cma_header.h"
#include "cm/wire/service_id.h"
#include "rpcrdma/wire/private_data.h"

namespace pollux::decode {
namespace {

constexpr uint16_t kNfsRdmaPort = 20049;

bool IsRpcService(const cm::Req& req) {
  const auto service = cm::ServiceId::FromWire(req.service_id);
  if (!service || service->port_space != RDMA_PS_TCP) return false;
  return service->port == kNfsRdmaPort ||
         rpcrdma::FindPrivateData(req.private_data, cm::kCmaHeaderBytes).has_value();
}

}  // namespace

bool BeginsRcSend(const wire::RocePacket& packet) {
  return packet.info->transport == wire::Transport::kRc &&
         packet.info->operation == wire::Operation::kSend &&
         (packet.info->position & (wire::kFirst | wire::kOnly)) != 0;
}

void RpcConnections::Follow(const wire::RocePacket& packet, const cm::Message& message) {
  if (const auto* req = std::get_if<cm::Req>(&message)) FollowReq(packet, *req);
  if (const auto* rep = std::get_if<cm::Rep>(&message)) FollowRep(packet, *rep);
}

void RpcConnections::FollowReq(const wire::RocePacket& packet, const cm::Req& req) {
  const End end{packet.source(), req.local_qpn};
  const Request request{packet.source(), req.local_comm_id};
  if (IsRpcService(req)) {
    if (ends_.size() < kMax) ends_.insert(end);
    if (requests_.size() < kMax) requests_.insert(request);
  } else {
    // Numbers come back for another use.
    ends_.erase(end);
    requests_.erase(request);
  }
}

void RpcConnections::FollowRep(const wire::RocePacket& packet, const cm::Rep& rep) {
  const End end{packet.source(), rep.local_qpn};
  if (requests_.contains({packet.destination(), rep.remote_comm_id})) {
    if (ends_.size() < kMax) ends_.insert(end);
  } else {
    ends_.erase(end);
  }
}

bool RpcConnections::BeginsMessage(const wire::RocePacket& packet) const {
  return BeginsRcSend(packet) && ends_.contains({packet.destination(), packet.bth.dest_qpn.value});
}

}  // namespace pollux::decode
