// The time for which an ending process waits for the peers of its connections.
#ifndef POLLUX_COMPAT_PROCESS_DISCONNECT_LINGER_H_
#define POLLUX_COMPAT_PROCESS_DISCONNECT_LINGER_H_

#include <cstdint>

namespace pollux::compat {

// If a DREQ is lost, or is still in a memif when the process ends, its peer would wait forever,
// because nothing repeats the DREQ any more. The process therefore stays until each peer has
// answered, at most for kTimeoutNs.
class DisconnectLinger {
 public:
  enum class Step : uint8_t { kWait, kRepeat, kGiveUp };

  // Longer than any peer takes to answer, and short enough for users who wait for the program's
  // end.
  static constexpr uint64_t kTimeoutNs = 2'000'000'000;
  static constexpr uint64_t kRepeatNs = 100'000'000;

  explicit DisconnectLinger(uint64_t now_ns) : begun_ns_(now_ns), repeated_ns_(now_ns) {}

  // Returns the next step. Take it, check for replies, and call this again while there are
  // unanswered DREQs.
  Step Next(uint64_t now_ns);

 private:
  const uint64_t begun_ns_;
  uint64_t repeated_ns_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_DISCONNECT_LINGER_H_
