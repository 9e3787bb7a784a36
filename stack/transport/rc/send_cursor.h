// The position of a reliable connection's requester in its send queue, and the responses to READs
// and atomics that it awaits.
#ifndef POLLUX_STACK_TRANSPORT_RC_SEND_CURSOR_H_
#define POLLUX_STACK_TRANSPORT_RC_SEND_CURSOR_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/transport/rc/in_flight_window.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::transport {

// The most READ response packets that may be in flight to a queue pair: fewer than the receive
// rings of usual ports hold. Large READs are limited to kWindowBytes as well.
inline constexpr uint32_t kMaxReadWindow = 256;
constexpr uint32_t ReadWindow(uint32_t mtu_bytes) {
  return std::min(kMaxReadWindow, kWindowBytes / mtu_bytes);
}
// A READ request may ask for at least this many response packets: many enough that it costs little
// compared with its response, and few enough that a lost request or a restarted response costs
// little.
inline constexpr uint32_t kMinReadRequestPackets = 32;
inline constexpr uint32_t kMinReadRequestBytes = 32 * 1024;  // if that is fewer packets

// The most response packets per READ request, if `max_rd_atomic` requests may be outstanding: a
// power of two, at most the window if only one request may be outstanding, otherwise at most half
// of it. The window is filled with as few requests as possible: if all of them are lost, each is
// requested again only after a probe.
constexpr uint32_t ReadRequestPackets(uint32_t max_rd_atomic, uint32_t mtu_bytes) {
  const uint32_t window = ReadWindow(mtu_bytes);
  const uint32_t most = std::bit_floor(max_rd_atomic <= 1 ? window : window / 2);
  const uint32_t share = window / std::max<uint32_t>(1, std::bit_ceil(max_rd_atomic));
  return std::max(std::min(std::bit_ceil(share), most),
                  std::min(kMinReadRequestPackets, kMinReadRequestBytes / mtu_bytes));
}

// A long READ is sent as several requests, which begin at multiples of ReadRequestPackets() from
// its first PSN, whatever was lost: the peer remembers requests, and accepts a repetition only
// within one of them. `una` is the requester's oldest unacknowledged PSN.
class SendCursor {
 public:
  explicit SendCursor(verbs::QueuePair* qp) : qp_(qp) {}

  // Moves to the oldest work request, with nothing sent. Applies the initiator depth of the queue
  // pair.
  void Start();
  // Moves past all work requests.
  void ToTail();

  bool AtEnd() const { return index_ == qp_->sq_tail(); }
  uint32_t index() const { return index_; }    // of the work request to be sent,
  uint32_t packet() const { return packet_; }  // and its next packet
  verbs::SendWqe& wqe() { return qp_->sq(index_); }

  // The number of READ requests and atomics that end between `una` and the cursor, and of response
  // packets there.
  uint32_t reads() const { return reads_; }
  uint32_t read_psns() const { return read_psns_; }
  // The maximum of read_psns() for such a READ, or for an atomic.
  uint32_t read_window(const verbs::SendWqe& wqe) const {
    return IsLarge(wqe.length) ? large_read_window_ : kMaxReadWindow;
  }
  // The end of the request that contains packet number `packet` of a READ or atomic.
  uint32_t RequestEnd(const verbs::SendWqe& wqe, uint32_t packet) const {
    return std::min(wqe.packets, (packet & ~(request_packets_ - 1)) + request_packets_);
  }

  // Moves past the packets up to number `end` of a work request, or past a local one (end 0); at
  // most past one READ request or atomic.
  void Advance(uint32_t end) {
    const verbs::SendWqe& at = wqe();
    if (at.has_response()) Count(at, packet_, end);
    packet_ = end;
    if (packet_ < at.packets) return;
    ++index_;
    packet_ = 0;
  }
  // Moves past `count` work requests of one packet without response data, of which nothing was
  // sent.
  void AdvanceMessages(uint32_t count) { index_ += count; }
  // Moves to `psn` if it has been numbered, otherwise to the end of the numbered requests.
  void MoveTo(Psn psn, Psn una);
  // Whether it is past `una`: something was sent that is not answered.
  bool Beyond(Psn una) const;
  // Moves to `una` if that is ahead of it: a response has arrived for packets that were still to be
  // sent again. Returns whether it moved.
  bool CatchUp(Psn una);
  // The response to `psn`, of the READ or atomic at the head of the queue, is retired.
  void Answered(Psn psn);

 private:
  // Counts packets [begin, end) of a READ or atomic.
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
