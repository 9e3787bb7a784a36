// Limits the number of unanswered requests: a program that connects or disconnects thousands of
// times at once would overrun its peer's receive ring, and each request lost there waits for its
// time-out.
#ifndef POLLUX_CM_CONNECTION_REQUEST_WINDOW_H_
#define POLLUX_CM_CONNECTION_REQUEST_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/functional/function_ref.h"

namespace pollux::cm {

// Requests are sent in the order in which they are made. Each is identified by its connection's
// local communication ID and occupies a place until it is answered, but at most for kHoldNs, so
// that a peer that is slow or does not exist cannot delay requests to others for longer.
//
// Owned by the manager, on its core.
class RequestWindow {
 public:
  // An eighth of the smallest receive ring (af_packet, 512 slots). With kHoldNs it allows 1,280
  // requests per second to peers that do not answer.
  static constexpr size_t kMax = 64;
  static constexpr uint64_t kHoldNs = 50'000'000;
  using IsOpen = absl::FunctionRef<bool(uint32_t comm_id)>;  // sent and not answered yet

  // Returns true if the request may be sent now; otherwise it is queued.
  bool Enter(uint32_t comm_id, uint64_t now_ns, IsOpen is_open);
  // Removes and returns the next queued request that may be sent now, if any.
  std::optional<uint32_t> Next(uint64_t now_ns, IsOpen is_open);
  // Removes a queued request, which is then not sent.
  void Cancel(uint32_t comm_id) { std::erase(waiting_, comm_id); }

  size_t waiting() const { return waiting_.size(); }
  // The time at which the oldest request loses its place at the latest; 0 if there is none.
  uint64_t deadline_ns() const { return out_.empty() ? 0 : out_.front().sent_ns + kHoldNs; }

 private:
  struct Out {
    uint32_t comm_id;
    uint64_t sent_ns;
  };
  bool HasRoom(uint64_t now_ns, IsOpen is_open);

  std::deque<Out> out_;  // oldest first, at most kMax
  std::deque<uint32_t> waiting_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_REQUEST_WINDOW_H_
