// How much a queue pair has on the wire: bytes, and request packets of a go-back-N requester.
#ifndef POLLUX_STACK_TRANSPORT_RC_IN_FLIGHT_WINDOW_H_
#define POLLUX_STACK_TRANSPORT_RC_IN_FLIGHT_WINDOW_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace pollux::transport {

// Bytes of large messages, and of the READ responses that it asks for, that a queue pair has under
// way. In the queues of NICs and switches, into which nobody sees, what other queue pairs send
// stands behind them: 63 us at 25 Gb/s, less than twice what a thousand queue pairs with a small
// message each take there. And above the product of bandwidth and delay of a data centre: 100 Gb/s
// for 15 us.
inline constexpr uint32_t kWindowBytes = 192 * 1024;
// Packets of longer messages count as whole ones; others are as few bytes as those at path MTU
// 1024, where the limits in packets bound the bytes as well.
constexpr bool IsLarge(uint32_t message_bytes) { return message_bytes > 1024; }

// A lost packet costs all that was sent behind it: on a wire that loses one packet in n, more than
// about n in flight are sent to be thrown away. Halved by a loss, and grown by half of what is
// acknowledged, the limit settles near n / 2; without losses it is kMax.
class InFlightWindow {
 public:
  static constexpr uint32_t kMax = 128;  // as rxe's: its sockets hold no more
  static constexpr uint32_t kMin = 8;
  static constexpr uint32_t kAcksAFlight = 4;  // asked for: the loss of one stops nobody

  // Of a message that IsLarge(), or of another.
  uint32_t packets(bool large = false) const { return large ? large_packets_ : packets_; }
  // Whether packets were lost lately.
  bool lowered() const { return packets_ < kMax; }
  // Every so many packets one asks for an acknowledgement: a power of two.
  uint32_t ack_every(bool large = false) const { return large ? large_ack_every_ : ack_every_; }
  void Reset(uint32_t mtu_bytes) {
    *this = {};
    large_most_ = static_cast<uint16_t>(std::min(kMax, kWindowBytes / mtu_bytes));
    Set(kMax);
  }
  void OnLoss() {
    Set(std::max<uint32_t>(kMin, packets_ / 2));
    acknowledged_ = 0;
  }
  void OnAcknowledged(uint32_t packets) {
    if (packets_ == kMax) return;
    packets += acknowledged_;
    Set(std::min(kMax, packets_ + packets / 2));
    acknowledged_ = static_cast<uint16_t>(packets % 2);
  }

 private:
  void Set(uint32_t packets) {
    packets_ = static_cast<uint16_t>(packets);
    large_packets_ = std::min(packets_, large_most_);
    ack_every_ = static_cast<uint16_t>(std::bit_floor(packets) / kAcksAFlight);
    large_ack_every_ =
        static_cast<uint16_t>(std::bit_floor<uint32_t>(large_packets_) / kAcksAFlight);
  }

  uint16_t packets_ = kMax;
  uint16_t ack_every_ = kMax / kAcksAFlight;
  uint16_t large_packets_ = kMax;
  uint16_t large_ack_every_ = kMax / kAcksAFlight;
  uint16_t large_most_ = kMax;
  uint16_t acknowledged_ = 0;  // and not counted into the growth yet
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_IN_FLIGHT_WINDOW_H_
