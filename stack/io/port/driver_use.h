// Marks that a worker is inside a port's driver, so that memory that the driver uses stays mapped.
#ifndef POLLUX_STACK_IO_PORT_DRIVER_USE_H_
#define POLLUX_STACK_IO_PORT_DRIVER_USE_H_

#include <rte_config.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace pollux::io {

// When a memif peer leaves, the driver unmaps the memory that both shared, on DPDK's interrupt
// thread, while a worker may be reading it. The worker holds a DriverUse of the port for each call
// of the driver, and the interrupt thread waits in AwaitNone() until there is none. One worker a
// port: the driver's queues allow no more.
class DriverUse {
 public:
  explicit DriverUse(uint16_t port_id) : in_use_(in_use[port_id].value) {
    in_use_.store(true, std::memory_order_relaxed);
    // AwaitNone() makes the processor keep this order, too.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~DriverUse() { in_use_.store(false, std::memory_order_release); }
  DriverUse(const DriverUse&) = delete;
  DriverUse& operator=(const DriverUse&) = delete;

  // Call it before the first DriverUse of the process.
  static void Prepare();
  // Waits until every DriverUse that began before this call, of any port, has ended. Each later one
  // sees everything that the caller wrote before. Must not be called while holding a DriverUse.
  static void AwaitNone();

 private:
  struct alignas(64) Flag {
    std::atomic<bool> value{false};
  };
  static std::array<Flag, RTE_MAX_ETHPORTS> in_use;
  std::atomic<bool>& in_use_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_DRIVER_USE_H_
