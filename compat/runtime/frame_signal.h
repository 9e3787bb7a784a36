// The signal by which the kernel tells DPDK's net_tap of a frame, kept from the program's threads.
#ifndef POLLUX_COMPAT_RUNTIME_FRAME_SIGNAL_H_
#define POLLUX_COMPAT_RUNTIME_FRAME_SIGNAL_H_

namespace pollux::compat {

// net_tap has the kernel send the process a signal for each frame, and reads its TAP only after one
// has come. It comes to any thread: a program that knows of none then finds its poll(2),
// nanosleep(2) or rdma_get_cm_event() interrupted. Here no signal is sent, and whoever drives the
// worker says to the driver at each turn that one has come.
class FrameSignal {
 public:
  FrameSignal() = default;  // none: for ports of other kinds
  // Stops the signals of the TAPs that this process has open; once the port is.
  static FrameSignal TakeOver();

  // The driver looks for frames at its next burst. Any thread.
  void Raise() const {
    if (handler_ != nullptr) handler_(number_);
  }

 private:
  void (*handler_)(int) = nullptr;
  int number_ = 0;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_FRAME_SIGNAL_H_
