// How many request packets a go-back-N requester has in flight.
#ifndef POLLUX_STACK_TRANSPORT_FLIGHT_LIMIT_H_
#define POLLUX_STACK_TRANSPORT_FLIGHT_LIMIT_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace pollux::transport {

// A lost packet costs all that was sent behind it: on a wire that loses one packet in n, more than
// about n in flight are sent to be thrown away. Halved by a loss, and grown by half of what is
// acknowledged, the limit settles near n / 2; without losses it is kMost.
class FlightLimit {
 public:
  static constexpr uint32_t kMost = 128;  // as rxe's: its sockets hold no more
  static constexpr uint32_t kLeast = 8;
  static constexpr uint32_t kAcksAFlight = 4;  // asked for: the loss of one stops nobody

  uint32_t packets() const { return packets_; }
  // Whether packets were lost lately.
  bool lowered() const { return packets_ < kMost; }
  // Every so many packets one asks for an acknowledgement: a power of two.
  uint32_t ack_every() const { return ack_every_; }
  void Reset() { *this = {}; }
  void OnLoss() {
    Set(std::max(kLeast, packets_ / 2));
    acknowledged_ = 0;
  }
  void OnAcknowledged(uint32_t packets) {
    if (packets_ == kMost) return;
    acknowledged_ += packets;
    Set(std::min(kMost, packets_ + acknowledged_ / 2));
    acknowledged_ %= 2;
  }

 private:
  void Set(uint32_t packets) {
    packets_ = packets;
    ack_every_ = std::bit_floor(packets) / kAcksAFlight;
  }

  uint32_t packets_ = kMost;
  uint32_t ack_every_ = kMost / kAcksAFlight;
  uint32_t acknowledged_ = 0;  // and not counted into the growth yet
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_FLIGHT_LIMIT_H_
