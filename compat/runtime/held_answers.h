// Whether acknowledgements wait for what the program is about to send.
#ifndef POLLUX_COMPAT_RUNTIME_HELD_ANSWERS_H_
#define POLLUX_COMPAT_RUNTIME_HELD_ANSWERS_H_

#include <cstdint>

namespace pollux::compat {

// A program that takes a message and answers it at once sends two packets: the acknowledgement and
// its answer. Sent alone, before the program has the completion, the first one costs a burst (on
// net_af_packet and net_tap a system call) in the middle of each round trip, and tells a peer that
// waits for both that it may look elsewhere for the answer. So it is left for the post that
// follows, as long as posts do follow. Of the worker's owner.
class HeldAnswers {
 public:
  // Who asks for completions again sends what is held for so long.
  static constexpr uint64_t kMaxNs = 5'000;
  static constexpr uint32_t kMisses = 4;   // in a row, before it is not tried
  static constexpr uint32_t kPause = 256;  // turns with work, until it is tried once more

  // Before a turn of the loop in a call that looks for completions, or by the progress thread for a
  // program that looks at its memory: whether it may leave answers unsent. A turn of any other kind
  // sends them.
  bool MayHold(uint64_t now_ns) const {
    return since_ns_ != 0 ? now_ns - since_ns_ < kMaxNs : pause_ == 0;
  }
  // After a turn that held, by which some are `owed`, or none.
  void Held(bool owed, uint64_t now_ns) {
    if (since_ns_ == 0 && owed) since_ns_ = now_ns;
  }
  // After a turn that sent them because the program has posted.
  void Accompanied() {
    if (since_ns_ == 0) return;
    since_ns_ = 0;
    misses_ = 0;
  }
  // After any other; whether there was anything to do in it.
  void Sent(bool work) {
    if (pause_ > 0 && work) --pause_;
    if (since_ns_ == 0) return;
    since_ns_ = 0;
    if (++misses_ < kMisses) return;
    misses_ = kMisses - 1;
    pause_ = kPause;
  }

 private:
  uint64_t since_ns_ = 0;  // 0: none are held
  uint32_t misses_ = 0;
  uint32_t pause_ = 0;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_HELD_ANSWERS_H_
