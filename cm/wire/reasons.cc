#include "cm/wire/reasons.h"

#include <cstddef>
#include <iterator>

namespace pollux::cm {

const char* RejectReasonName(uint16_t reason) {
  static constexpr const char* kNames[] = {
      nullptr,
      "no queue pair available",
      "no end-to-end context available",
      "no resources available",
      "timeout",
      "unsupported request",
      "invalid communication ID",
      "invalid communication instance",
      "invalid service ID",
      "invalid transport service type",
      "stale connection",
      "reliable datagram channel does not exist",
      "primary remote port GID rejected",
      "primary remote port LID rejected",
      "invalid primary service level",
      "invalid primary traffic class",
      "invalid primary hop limit",
      "invalid primary packet rate",
      "alternate remote port GID rejected",
      "alternate remote port LID rejected",
      "invalid alternate service level",
      "invalid alternate traffic class",
      "invalid alternate hop limit",
      "invalid alternate packet rate",
      "port and CM redirection",
      "port redirection",
      "invalid path MTU",
      "insufficient responder resources",
      "rejected by the consumer",
      "invalid RNR NAK retry count",
      "duplicate local communication ID",
      "invalid class version",
      "invalid primary flow label",
      "invalid alternate flow label",
      nullptr,
      "vendor option not supported",
  };
  const char* name = reason < std::size(kNames) ? kNames[reason] : nullptr;
  return name != nullptr ? name : "reserved reason";
}

const char* SidrStatusName(uint8_t status) {
  static constexpr const char* kNames[] = {
      "valid queue pair",
      "service ID not supported",
      "rejected by the service provider",
      "no queue pair available",
      "redirected",
      "unsupported version",
  };
  return status < std::size(kNames) ? kNames[status] : "reserved status";
}

}  // namespace pollux::cm
