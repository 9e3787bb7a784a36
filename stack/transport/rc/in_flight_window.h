// Limits the bytes that a queue pair has in flight, and the request packets of a go-back-N
// requester.
#ifndef POLLUX_STACK_TRANSPORT_RC_IN_FLIGHT_WINDOW_H_
#define POLLUX_STACK_TRANSPORT_RC_IN_FLIGHT_WINDOW_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace pollux::transport {

// The most bytes that a queue pair may have in flight, of large messages and of the READ responses
// that it requests. In the queues of NICs and switches, which hosts cannot observe, the packets of
// other queue pairs wait behind these: for 63 us at 25 Gb/s, less than twice as long as behind a
// thousand queue pairs with one small message each. It is also above the bandwidth-delay product of
// a data centre: 100 Gb/s times 15 us.
inline constexpr uint32_t kWindowBytes = 192 * 1024;
// Whether the limit in bytes applies to a message. Packets of other messages are at most as long as
// those at path MTU 1024, for which the limits in packets bound the bytes as well.
constexpr bool IsLarge(uint32_t message_bytes) { return message_bytes > 1024; }

// A lost packet makes all packets after it useless: on a wire that loses one packet in n, packets
// beyond about n in flight are sent in vain. A loss halves the limit, and it grows by half of the
// packets that are acknowledged, so that it settles near n / 2; without losses it is kMax.
class InFlightWindow {
 public:
  static constexpr uint32_t kMax = 128;  // as many as Linux's rxe has in flight
  static constexpr uint32_t kMin = 8;
  static constexpr uint32_t kAcksAFlight = 4;  // requested; losing one does not stall the sender

  // The limit for messages for which IsLarge() is `large`.
  uint32_t packets(bool large = false) const { return large ? large_packets_ : packets_; }
  // Whether recent losses have lowered the limit.
  bool lowered() const { return packets_ < kMax; }
  // One in this many packets requests an acknowledgement; a power of two.
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
  uint16_t acknowledged_ = 0;  // not yet counted into the growth
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_IN_FLIGHT_WINDOW_H_
