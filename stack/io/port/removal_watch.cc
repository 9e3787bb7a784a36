// DPDK's events of devices are not part of its stable ABI yet.
#define ALLOW_EXPERIMENTAL_API
#include "stack/io/port/removal_watch.h"

#include <rte_dev.h>
#include <sched.h>

#include <cerrno>

namespace pollux::io {
namespace {

// On EAL's interrupt thread.
void OnEvent(const char* /*device*/, rte_dev_event_type type, void* removed) {
  if (type == RTE_DEV_EVENT_REMOVE) *static_cast<std::atomic<bool>*>(removed) = true;
}

}  // namespace

RemovalWatch::RemovalWatch(const std::string& address) : address_(address) {
  (void)rte_dev_event_callback_register(address_.c_str(), &OnEvent, &removed_);
  // For uio: the kernel announces that the device is gone. vfio asks for the device without this.
  // Fails where the kernel announces nothing, as in a container.
  (void)rte_dev_event_monitor_start();
}

RemovalWatch::~RemovalWatch() {
  while (rte_dev_event_callback_unregister(address_.c_str(), &OnEvent, &removed_) == -EAGAIN) {
    sched_yield();  // it runs at this moment
  }
  (void)rte_dev_event_monitor_stop();
}

}  // namespace pollux::io
