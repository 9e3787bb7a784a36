#include "stack/io/port/driver_use.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pollux::io {
namespace {

constexpr useconds_t kPollUs = 50;

bool Membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

std::array<DriverUse::Flag, RTE_MAX_ETHPORTS> DriverUse::in_use;

void DriverUse::Prepare() { (void)Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

void DriverUse::AwaitNone() {
  // Where the system call is forbidden, a pause: a store reaches the other processors much sooner.
  if (!Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) usleep(1000);
  for (const Flag& port : in_use) {
    while (port.value.load(std::memory_order_acquire)) usleep(kPollUs);
  }
}

}  // namespace pollux::io

// Stands for the memif driver's function in all that is linked with this library (--wrap in
// BUILD.bazel). The driver has marked the port as disconnected before it calls this, so that later
// calls of a worker do not touch the shared memory. They still read the records of the regions,
// which rte_free() leaves mapped.
struct rte_eth_dev;
extern "C" void __real_memif_free_regions(rte_eth_dev* device);
extern "C" void __wrap_memif_free_regions(rte_eth_dev* device) {
  pollux::io::DriverUse::AwaitNone();
  __real_memif_free_regions(device);
}
