// Notices that a PCI device is being unplugged.
#ifndef POLLUX_STACK_IO_PORT_REMOVAL_WATCH_H_
#define POLLUX_STACK_IO_PORT_REMOVAL_WATCH_H_

#include <atomic>
#include <string>

namespace pollux::io {

// Created and destroyed on a control thread.
class RemovalWatch {
 public:
  // Of the PCI device with this address, such as "0000:03:00.0".
  explicit RemovalWatch(const std::string& address);
  ~RemovalWatch();
  RemovalWatch(const RemovalWatch&) = delete;
  RemovalWatch& operator=(const RemovalWatch&) = delete;

  // Whether the device is gone, or is only waiting to be released. On any thread.
  bool removed() const { return removed_.load(std::memory_order_relaxed); }

 private:
  std::string address_;
  std::atomic<bool> removed_{false};
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_REMOVAL_WATCH_H_
