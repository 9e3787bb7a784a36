// How long a process that ends waits for the peers of its connections.
#ifndef POLLUX_COMPAT_PROCESS_DISCONNECT_LINGER_H_
#define POLLUX_COMPAT_PROCESS_DISCONNECT_LINGER_H_

#include <cstdint>

namespace pollux::compat {

// A DREQ that is lost, or lies in a memif when its process goes, leaves a peer to wait for ever:
// nobody is there to repeat it any more. The process stays until each peer has answered, or for
// kTimeoutNs where one does not.
class DisconnectLinger {
 public:
  enum class Step : uint8_t { kWait, kRepeat, kGiveUp };

  // Longer than a peer takes that answers at all, and short for who waits for the program's end.
  static constexpr uint64_t kTimeoutNs = 2'000'000'000;
  static constexpr uint64_t kRepeatNs = 100'000'000;

  explicit DisconnectLinger(uint64_t now_ns) : begun_ns_(now_ns), repeated_ns_(now_ns) {}

  // What to do before the next look for answers.
  Step Next(uint64_t now_ns);

 private:
  const uint64_t begun_ns_;
  uint64_t repeated_ns_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_DISCONNECT_LINGER_H_
