// Finds the queue pairs of a capture that carry RPC-over-RDMA, by their CM exchange.
#ifndef POLLUX_TOOLS_DECODE_RPC_CONNECTIONS_H_
#define POLLUX_TOOLS_DECODE_RPC_CONNECTIONS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>

#include "cm/wire/mad.h"
#include "stack/base/types.h"
#include "stack/wire/roce_packet.h"

namespace pollux::decode {

class RpcConnections {
 public:
  // The most ends, and the most requests, that are remembered. Further ones are ignored, so that
  // memory is bounded even for a capture of a flood of REQs.
  static constexpr size_t kMax = 1u << 20;

  // Handles a CM message in `packet`. A REQ counts as RPC-over-RDMA if its service is NFS/RDMA's
  // port 20049 or its private data is that of RFC 8797.
  void Follow(const wire::RocePacket& packet, const cm::Message& message);

  // Whether the packet begins a Send on such a connection, so that it contains a transport header.
  // RFC 8166 section 4
  bool BeginsMessage(const wire::RocePacket& packet) const;

 private:
  // One end of a connection.
  struct End {
    Gid gid;
    uint32_t qpn = 0;
    friend auto operator<=>(const End&, const End&) = default;
  };
  // A REQ, identified as in its REP.
  struct Request {
    Gid requester;
    uint32_t comm_id = 0;
    friend auto operator<=>(const Request&, const Request&) = default;
  };

  void FollowReq(const wire::RocePacket& packet, const cm::Req& req);
  void FollowRep(const wire::RocePacket& packet, const cm::Rep& rep);

  std::set<End> ends_;
  std::set<Request> requests_;
};

// Whether the packet begins an RC Send.
bool BeginsRcSend(const wire::RocePacket& packet);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_RPC_CONNECTIONS_H_
