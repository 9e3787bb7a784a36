// Where the requester of a reliable connection is in its send queue, and which answers to READs and
// atomics it waits for.
#ifndef POLLUX_STACK_TRANSPORT_RC_SEND_CURSOR_H_
#define POLLUX_STACK_TRANSPORT_RC_SEND_CURSOR_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/transport/rc/in_flight_window.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::transport {

// READ response packets that may be under way to a queue pair: less than the receive rings of usual
// ports hold. Of large READs no more than kWindowBytes.
inline constexpr uint32_t kMaxReadWindow = 256;
constexpr uint32_t ReadWindow(uint32_t mtu_bytes) {
  return std::min(kMaxReadWindow, kWindowBytes / mtu_bytes);
}
// Of one READ request, unless the window is shared by fewer: then a request costs little beside its
// answer, and what a lost request or a restarted answer costs stays small.
inline constexpr uint32_t kMinReadRequestPackets = 32;
inline constexpr uint32_t kMinReadRequestBytes = 32 * 1024;  // if that is fewer packets

// Response packets that one READ request asks for at most, given how many may be outstanding: a
// power of two, and most of the window where only one request may be, else of half of it. As few
// requests as fill the window: where all of them are lost, each is asked for after a probe.
constexpr uint32_t ReadRequestPackets(uint32_t max_rd_atomic, uint32_t mtu_bytes) {
  const uint32_t window = ReadWindow(mtu_bytes);
  const uint32_t most = std::bit_floor(max_rd_atomic <= 1 ? window : window / 2);
  const uint32_t share = window / std::max<uint32_t>(1, std::bit_ceil(max_rd_atomic));
  return std::max(std::min(std::bit_ceil(share), most),
                  std::min(kMinReadRequestPackets, kMinReadRequestBytes / mtu_bytes));
}

// A long READ is several requests on the wire, which begin at multiples of ReadRequestPackets()
// from its first PSN, whatever was lost: the peer remembers requests, and takes a repetition only
// within one of them. `una` is the requester's oldest unacknowledged PSN.
class SendCursor {
 public:
  explicit SendCursor(verbs::QueuePair* qp) : qp_(qp) {}

  // To the oldest work request, nothing sent. Takes the initiator depth of the queue pair.
  void Start();
  // Past all of them.
  void ToTail();

  bool AtEnd() const { return index_ == qp_->sq_tail(); }
  uint32_t index() const { return index_; }    // of the work request to be sent,
  uint32_t packet() const { return packet_; }  // and the next packet of it
  verbs::SendWqe& wqe() { return qp_->sq(index_); }

  // READ requests and atomics that end between `una` and the cursor, and response packets there.
  uint32_t reads() const { return reads_; }
  uint32_t read_psns() const { return read_psns_; }
  // As many of the latter as may be for such a READ, or atomic.
  uint32_t read_window(const verbs::SendWqe& wqe) const {
    return IsLarge(wqe.length) ? large_read_window_ : kMaxReadWindow;
  }
  // Where the request of a READ or atomic that packet number `packet` belongs to ends.
  uint32_t RequestEnd(const verbs::SendWqe& wqe, uint32_t packet) const {
    return std::min(wqe.packets, (packet & ~(request_packets_ - 1)) + request_packets_);
  }

  // Over the packets up to number `end` of a work request, or over a local one (end 0); over
  // one READ request or atomic at most.
  void Advance(uint32_t end) {
    const verbs::SendWqe& at = wqe();
    if (at.brings_data()) Count(at, packet_, end);
    packet_ = end;
    if (packet_ < at.packets) return;
    ++index_;
    packet_ = 0;
  }
  // Over a work request of one packet that brings no data, of which nothing was sent yet.
  void AdvanceMessage() { ++index_; }
  // To `psn`, which was numbered already, or to the end of what was.
  void MoveTo(Psn psn, Psn una);
  // Whether it stands after `una`: something was sent that is not answered.
  bool Beyond(Psn una) const;
  // To `una` when it stands before it: an answer has overtaken what is being sent again.
  void CatchUp(Psn una);
  // The answer to `psn`, of the READ or atomic at the head of the queue, is retired.
  void Answered(Psn psn);

 private:
  // Of a READ or atomic.
  void Count(const verbs::SendWqe& wqe, uint32_t begin, uint32_t end);

  verbs::QueuePair* qp_;
  uint32_t index_ = 0;
  uint32_t packet_ = 0;
  uint32_t reads_ = 0;
  uint32_t read_psns_ = 0;
  uint32_t request_packets_ = kMinReadRequestPackets;  // a power of two
  uint32_t large_read_window_ = kMaxReadWindow;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_SEND_CURSOR_H_
