// The number of calls that a Requester may have outstanding. Source: RFC 8166 sections 3.3.1 and
// 3.3.3.
#ifndef POLLUX_RPCRDMA_WIRE_CREDITS_H_
#define POLLUX_RPCRDMA_WIRE_CREDITS_H_

#include <algorithm>
#include <cstdint>

namespace pollux::rpcrdma {

class CreditWindow {
 public:
  // `requested`: the credits that every call requests, which is the number of receives of this
  // side.
  explicit CreditWindow(uint32_t requested) : requested_(requested) {}

  uint32_t requested() const { return requested_; }
  uint32_t granted() const { return granted_; }
  uint32_t outstanding() const { return outstanding_; }
  // RFC 8166 section 3.3.1: the lower of requested and granted, less the calls in flight.
  bool CanSend() const { return outstanding_ < granted_; }
  void OnSend() { ++outstanding_; }
  void OnReply(uint32_t granted) {
    --outstanding_;
    // A grant of zero would end the connection's life; peers take it as one.
    granted_ = std::clamp(granted, 1u, requested_);
  }

 private:
  uint32_t requested_;
  // RFC 8166 section 3.3.3: 1 until the first grant.
  uint32_t granted_ = 1;
  uint32_t outstanding_ = 0;
};

// The credits that a Responder grants if it has posted `receives` receives: never 0, and never more
// than requested.
inline uint32_t Grant(uint32_t requested, uint32_t receives) {
  return std::clamp(requested, 1u, receives);
}

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_CREDITS_H_
