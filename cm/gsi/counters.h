// Counters of CM messages, and the reasons why some were dropped.
#ifndef POLLUX_CM_GSI_COUNTERS_H_
#define POLLUX_CM_GSI_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "absl/functional/function_ref.h"
#include "cm/wire/mad.h"

namespace pollux::cm {

// The reasons why a received MAD was dropped or an own one was not sent.
enum class MadDrop : uint8_t {
  kBadLength,         // not 256 bytes
  kBadHeader,         // class, version or method is not CM's
  kUnknownAttribute,  // or one that Pollux does not support
  kBadSource,         // not from queue pair 1, or without a usable source address
  kUnknownCommId,
  kWrongPeer,      // the connection of this communication ID has another peer address or ID
  kWrongQpn,       // a DREQ for another queue pair
  kWrongState,     // a message that its connection does not expect in its state
  kBacklogFull,    // a REQ beyond max_pending_requests
  kSendQueueFull,  // an own message; repeated after its time-out
  kNoSource,       // an own message whose source address the device has lost
  kHalfOpenFull,   // a connection given up beyond max_half_open
  kHandoverFull,   // for another manager of the device; too many calls to them are in progress
  kCount
};
// snake_case, for tables and telemetry.
const char* MadDropName(MadDrop drop);

struct MessageCounters {
  uint64_t sent = 0;        // repetitions included
  uint64_t received = 0;    // duplicates included
  uint64_t retries = 0;     // repeated because there was no reply in time
  uint64_t duplicates = 0;  // received again
};

// Counters by message type, and drops by reason.
struct Counters {
  static constexpr uint16_t kFirst = static_cast<uint16_t>(Attribute::kReq);
  static constexpr uint16_t kLast = static_cast<uint16_t>(Attribute::kApr);
  static_assert(kLast - kFirst + 1 == std::variant_size_v<Message>);
  std::array<MessageCounters, kLast - kFirst + 1> messages{};
  std::array<uint64_t, static_cast<size_t>(MadDrop::kCount)> drops{};

  // Only for attributes from kReq to kApr.
  MessageCounters& of(Attribute attribute) {
    return messages[static_cast<uint16_t>(attribute) - kFirst];
  }
  const MessageCounters& of(Attribute attribute) const {
    return messages[static_cast<uint16_t>(attribute) - kFirst];
  }
  void Count(MadDrop drop) { ++drops[static_cast<size_t>(drop)]; }
  uint64_t drop(MadDrop reason) const { return drops[static_cast<size_t>(reason)]; }

  // Calls `visit` for each counter with its name. Counters by message type are named as by Linux in
  // /sys/class/infiniband/DEV/ports/1/cm_*_*/ ("cm_tx_msgs/req", "cm_tx_retries/req",
  // "cm_rx_msgs/req", "cm_rx_duplicates/req"), and "cm_rx_drops/" with MadDropName().
  void Visit(absl::FunctionRef<void(std::string_view name, uint64_t value)> visit) const;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_COUNTERS_H_
