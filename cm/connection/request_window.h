// Which requests may be on the wire at once: a program that connects or disconnects by the thousand
// would overrun its peer's receive ring, and each request lost there waits for its time-out.
#ifndef POLLUX_CM_CONNECTION_REQUEST_WINDOW_H_
#define POLLUX_CM_CONNECTION_REQUEST_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/functional/function_ref.h"

namespace pollux::cm {

// Requests leave in the order in which they are made. Each is named by its connection's local
// communication ID and holds its place until it is answered, or for kHoldNs: a peer whose user
// takes its time, or that is not there, keeps nobody else's for longer.
//
// Owned by the manager, on its core.
class RequestWindow {
 public:
  // An eighth of the smallest receive ring, af_packet's of 512 slots, and 1,280 requests a second
  // to peers that do not answer.
  static constexpr size_t kMax = 64;
  static constexpr uint64_t kHoldNs = 50'000'000;
  using IsOpen = absl::FunctionRef<bool(uint32_t comm_id)>;  // sent, and not answered yet

  // Whether it may leave now; else it waits here.
  bool Enter(uint32_t comm_id, uint64_t now_ns, IsOpen is_open);
  // The next that may leave now, of those that wait; it is no longer among them.
  std::optional<uint32_t> Next(uint64_t now_ns, IsOpen is_open);
  // Of one that waits, and will not leave.
  void Cancel(uint32_t comm_id) { std::erase(waiting_, comm_id); }

  size_t waiting() const { return waiting_.size(); }
  // When the oldest has held its place for long enough.
  uint64_t deadline_ns() const { return out_.empty() ? 0 : out_.front().sent_ns + kHoldNs; }

 private:
  struct Out {
    uint32_t comm_id;
    uint64_t sent_ns;
  };
  bool HasRoom(uint64_t now_ns, IsOpen is_open);

  std::deque<Out> out_;  // oldest first, kMax at most
  std::deque<uint32_t> waiting_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_REQUEST_WINDOW_H_
