// Replaces the signal by which the kernel notifies DPDK's net_tap of frames, so that it does not
// reach the program's threads.
#ifndef POLLUX_COMPAT_RUNTIME_FRAME_SIGNAL_H_
#define POLLUX_COMPAT_RUNTIME_FRAME_SIGNAL_H_

namespace pollux::compat {

// net_tap requests a signal from the kernel for each frame, and reads its TAP only after a signal.
// Any thread may receive it, and a program that does not expect it finds its poll(2), nanosleep(2)
// or rdma_get_cm_event() interrupted. Here the kernel sends no signal; instead, the thread that
// drives the worker calls the driver's signal handler in each turn.
class FrameSignal {
 public:
  FrameSignal() = default;  // for other kinds of ports: Raise() has no effect
  // Stops the signals of the TAPs that this process has open. Call it when the port is open.
  static FrameSignal TakeOver();

  // Makes the driver look for frames in its next burst. Thread-safe.
  void Raise() const {
    if (handler_ != nullptr) handler_(number_);
  }

 private:
  void (*handler_)(int) = nullptr;
  int number_ = 0;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_FRAME_SIGNAL_H_
