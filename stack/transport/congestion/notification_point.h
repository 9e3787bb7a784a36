// The receiver's half of DCQCN: notifies senders that the network has marked their packets.
#ifndef POLLUX_STACK_TRANSPORT_CONGESTION_NOTIFICATION_POINT_H_
#define POLLUX_STACK_TRANSPORT_CONGESTION_NOTIFICATION_POINT_H_

#include <cstdint>

#include "stack/base/types.h"
#include "stack/transport/congestion/dcqcn_parameters.h"
#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/poll_context.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// For one queue pair; sends at most one CNP per min_time_between_cnps. A CNP takes its addresses
// and VLAN from the marked packet, so that the sender of a datagram need not be known. Owned by one
// worker. Source: IB specification, annex A17.9.
class NotificationPoint {
 public:
  // `parameters` and `diagnostics`, which is the queue pair's own, must outlive this object.
  NotificationPoint(const DcqcnParameters* parameters, QpDiagnostics* diagnostics)
      : parameters_(parameters), diagnostics_(diagnostics) {}

  // Handles a packet with the CE mark, whose ICRC is right, to queue pair `local` from `remote`.
  void OnMarked(const wire::RocePacket& packet, Qpn local, Qpn remote, PollContext& context);

 private:
  bool Send(const wire::RocePacket& packet, Qpn local, Qpn remote, PollContext& context) const;

  const DcqcnParameters* parameters_;
  QpDiagnostics* diagnostics_;
  uint64_t next_ns_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_CONGESTION_NOTIFICATION_POINT_H_
