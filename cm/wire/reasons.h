// Reasons of REJ messages and statuses of SIDR_REP messages. Source: IB specification volume 1,
// sections 12.6.7.2 and 12.11.
#ifndef POLLUX_CM_WIRE_REASONS_H_
#define POLLUX_CM_WIRE_REASONS_H_

#include <cstdint>

namespace pollux::cm {

// "Sent if" gives the condition for sending a reason, "not sent" why Pollux does not send it. All
// are handled on receipt: the connection ends with RDMA_CM_EVENT_REJECTED, whose status is the
// reason, except for 26 (see there).
enum class RejectReason : uint16_t {
  kNoQp = 1,   // sent if the user chooses it (Manager::Reject)
  kNoEec = 2,  // not sent: for reliable datagrams
  // Sent if max_ids are in use, the queue pair cannot be moved, or memory is short.
  kNoResources = 3,
  // Sent if a REQ or REP had no reply after all retries, or if a half-open connection is given up
  // at max_half_open.
  kTimeout = 4,
  // Sent if the CMA header is missing, or a queue pair number or P_Key is impossible.
  kUnsupportedRequest = 5,
  kInvalidCommId = 6,         // sent for a REP of an ended connection, and for a REQ with ID 0
  kInvalidCommInstance = 7,   // not sent: no check needs it
  kInvalidServiceId = 8,      // sent if there is no listener
  kInvalidTransportType = 9,  // sent if the transport is not RC
  kStaleConnection = 10,      // sent if the queue pair is connected, or was a moment ago
  kRdcDoesNotExist = 11,      // not sent: for reliable datagrams
  kInvalidGid = 12,           // sent if the path in the REQ is not the packet's own
  // Not sent, 13 to 23: Ethernet has no LID, service level or rate; classes and limits are only
  // hints; and the REP declines the alternate path.
  kInvalidLid = 13,
  kInvalidServiceLevel = 14,
  kInvalidTrafficClass = 15,
  kInvalidHopLimit = 16,
  kInvalidPacketRate = 17,
  kInvalidAlternateGid = 18,
  kInvalidAlternateLid = 19,
  kInvalidAlternateServiceLevel = 20,
  kInvalidAlternateTrafficClass = 21,
  kInvalidAlternateHopLimit = 22,
  kInvalidAlternatePacketRate = 23,
  kPortAndCmRedirect = 24,  // not sent: each device has its own CM
  kPortRedirect = 25,       // not sent, as 24
  kInvalidMtu = 26,  // sent if it exceeds this port's; on receipt: asks again with the lower one
  // Sent if the user chooses it; otherwise the REP lowers the counts.
  kInsufficientResponderResources = 27,
  kConsumerDefined = 28,            // sent by Manager::Reject(), or for a destroyed identifier
  kInvalidRnrRetryCount = 29,       // not sent: all eight counts are valid
  kDuplicateLocalCommId = 30,       // sent if the ID belongs to another connection of the peer
  kInvalidClassVersion = 31,        // sent for a REQ of another version than 2
  kInvalidFlowLabel = 32,           // not sent: all labels are accepted
  kInvalidAlternateFlowLabel = 33,  // not sent, as 18 to 23
  kVendorOptionNotSupported = 35,   // not sent: options (ECE) are ignored
};
// For example "stale connection"; "reserved reason" for an unknown number.
const char* RejectReasonName(uint16_t reason);

enum class SidrStatus : uint8_t {
  kOk = 0,
  kUnsupported = 1,  // sent if there is no listener
  // Sent by Manager::Reject(), for a destroyed identifier, without a CMA header, or at a limit.
  kReject = 2,
  kNoQp = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};
// For example "service ID not supported"; "reserved status" for an unknown number.
const char* SidrStatusName(uint8_t status);

}  // namespace pollux::cm

#endif  // POLLUX_CM_WIRE_REASONS_H_
