// How many request packets a go-back-N requester has in flight.
#ifndef POLLUX_STACK_TRANSPORT_FLIGHT_LIMIT_H_
#define POLLUX_STACK_TRANSPORT_FLIGHT_LIMIT_H_

#include <algorithm>
#include <cstdint>

namespace pollux::transport {

// A lost packet costs all that was sent behind it: on a wire that loses one packet in n, more than
// about n in flight are sent to be thrown away. Halved by a loss, and grown by half of what is
// acknowledged, the limit settles near n / 2; without losses it is kMost.
class FlightLimit {
 public:
  static constexpr uint32_t kMost = 128;  // as rxe's: its sockets hold no more
  static constexpr uint32_t kLeast = 8;

  uint32_t packets() const { return packets_; }
  void Reset() { *this = {}; }
  void OnLoss() {
    packets_ = std::max(kLeast, packets_ / 2);
    acknowledged_ = 0;
  }
  void OnAcknowledged(uint32_t packets) {
    if (packets_ == kMost) return;
    acknowledged_ += packets;
    packets_ = std::min(kMost, packets_ + acknowledged_ / 2);
    acknowledged_ %= 2;
  }

 private:
  uint32_t packets_ = kMost;
  uint32_t acknowledged_ = 0;  // and not counted into the growth yet
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_FLIGHT_LIMIT_H_
