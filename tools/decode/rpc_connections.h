// Which queue pairs of a capture carry RPC-over-RDMA, as their CM exchange tells.
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
  // Ends and requests remembered, each; past that no new ones are: a capture of a flood of REQs is
  // still read in bounded memory.
  static constexpr size_t kMax = 1u << 20;

  // A CM message that `packet` carries. A REQ counts when its service is NFS/RDMA's port 20049 or
  // its private data is RFC 8797's.
  void Follow(const wire::RocePacket& packet, const cm::Message& message);

  // Whether the packet begins a Send on such a connection: a transport header stands there.
  // RFC 8166 section 4
  bool BeginsMessage(const wire::RocePacket& packet) const;

 private:
  // One end of a connection.
  struct End {
    Gid gid;
    uint32_t qpn = 0;
    friend auto operator<=>(const End&, const End&) = default;
  };
  // A REQ, as its REP names it.
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
