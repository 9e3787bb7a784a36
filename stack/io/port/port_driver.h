// What each DPDK driver needs, and what it really carries: not what it reports.
#ifndef POLLUX_STACK_IO_PORT_PORT_DRIVER_H_
#define POLLUX_STACK_IO_PORT_PORT_DRIVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "stack/io/port/devargs.h"

namespace pollux::io {

// Of a frame: Ethernet header and one 802.1Q tag.
inline constexpr uint16_t kFramingBytes = 18;
// The largest MTU Pollux has a use for: path MTU 4096 and the longest headers.
inline constexpr uint16_t kMaxMtu = 4334;

// Adds the arguments without which large frames would be dropped silently, and those that ask for
// `queues`; `data_room` is that of the receive pool. Whatever the user gave stays.
void AddDriverDefaults(Devargs* devargs, uint16_t data_room, uint16_t queues);

// Looks at the machine before DPDK does, since its drivers only say -1: NotFound, InvalidArgument,
// PermissionDenied, FailedPrecondition, AlreadyExists, with what to do. Removes the socket file
// that a dead memif server left.
absl::Status CheckMachine(const Devargs& devargs);

// Bytes after the headroom that receive buffers may have for the driver to take them.
struct DataRoom {
  uint16_t least;
  uint16_t most;
};
DataRoom DriverDataRoom(const Devargs& devargs);

// The MTU that frames of `data_room` bytes and this driver carry; `reported` is the device's own.
uint16_t DriverMtu(const Devargs& devargs, uint16_t data_room, uint16_t reported);

// The most pairs of queues that work, whatever the device reports.
uint16_t DriverQueues(Driver driver);

struct Descriptors {
  uint16_t rx;
  uint16_t tx;
};
Descriptors DriverDescriptors(Driver driver);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_PORT_DRIVER_H_
