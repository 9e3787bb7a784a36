// Why a peer says no: REJ reasons and SIDR_REP statuses. Source: IB specification volume 1,
// sections 12.6.7.2 and 12.11.
#ifndef POLLUX_CM_WIRE_REASONS_H_
#define POLLUX_CM_WIRE_REASONS_H_

#include <cstdint>

namespace pollux::cm {

// What Pollux does with each: "gives" (and when), or why it never does. All are understood: the
// connection ends with RDMA_CM_EVENT_REJECTED, whose status is the reason, but for 26 (see there).
enum class RejectReason : uint16_t {
  kNoQp = 1,                  // the user's to give (Manager::Reject)
  kNoEec = 2,                 // not given: of reliable datagrams
  kNoResources = 3,           // gives: max_ids are in use, or the queue pair does not move
  kTimeout = 4,               // gives: no answer came to a REQ or REP, however often sent
  kUnsupportedRequest = 5,    // gives: no CMA header, a queue pair or P_Key that cannot be
  kInvalidCommId = 6,         // gives: a REP to a connection that is over, a REQ without an ID
  kInvalidCommInstance = 7,   // not given: nothing of the wire asks for it
  kInvalidServiceId = 8,      // gives: nobody listens
  kInvalidTransportType = 9,  // gives: not RC
  kStaleConnection = 10,      // gives: the queue pair is connected already, or was just now
  kRdcDoesNotExist = 11,      // not given: of reliable datagrams
  kInvalidGid = 12,           // gives: a path that is not the packet's own
  // Not given, 13 to 23: Ethernet has no LID, service level or rate, classes and limits are
  // advice there, and the alternate path is declined in the REP.
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
  kPortAndCmRedirect = 24,  // not given: there is one CM a device
  kPortRedirect = 25,       // not given, as 24
  kInvalidMtu = 26,         // gives: a larger one than this port's; acts on: asks lower
  kInsufficientResponderResources = 27,  // the user's to give: REP answers with what there is
  kConsumerDefined = 28,                 // gives: Manager::Reject, or an identifier destroyed
  kInvalidRnrRetryCount = 29,            // not given: all eight counts are valid
  kDuplicateLocalCommId = 30,            // gives: the ID is another connection's of the peer
  kInvalidClassVersion = 31,             // gives: a REQ of another version than 2
  kInvalidFlowLabel = 32,                // not given: any will do
  kInvalidAlternateFlowLabel = 33,       // not given, as 18 to 23
  kVendorOptionNotSupported = 35,        // not given: options (ECE) are passed over
};
// "stale connection"; "reserved reason" for one that the specification does not name.
const char* RejectReasonName(uint16_t reason);

enum class SidrStatus : uint8_t {
  kOk = 0,
  kUnsupported = 1,  // gives: nobody listens
  kReject = 2,       // gives: Manager::Reject, an identifier destroyed, no CMA header, no room
  kNoQp = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};
// "service ID not supported"; "reserved status" for one that the specification does not name.
const char* SidrStatusName(uint8_t status);

}  // namespace pollux::cm

#endif  // POLLUX_CM_WIRE_REASONS_H_
