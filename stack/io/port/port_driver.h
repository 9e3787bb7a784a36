// What each DPDK driver needs, and the frames that it really carries, which may differ from what it
// reports.
#ifndef POLLUX_STACK_IO_PORT_PORT_DRIVER_H_
#define POLLUX_STACK_IO_PORT_PORT_DRIVER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "stack/io/port/devargs.h"

namespace pollux::io {

// Ethernet header and one 802.1Q tag.
inline constexpr uint16_t kFramingBytes = 18;
// What drivers of NICs subtract from a buffer to get the MTU: 26 bytes (Intel's: Ethernet header,
// two tags, the frame's checksum) or 30 (virtio: kFramingBytes and a header of 12 bytes).
inline constexpr uint16_t kNicFramingBytes = 30;
// The room of a buffer for NICs that use only a power of two of it.
inline constexpr uint16_t kNicLargeRoom = 8192;
// The largest MTU that Pollux uses: path MTU 4096 and the longest headers.
inline constexpr uint16_t kMaxMtu = 4334;

// Adds the arguments without which large frames would be dropped silently, and those that request
// `queues` queues. `data_room` is that of the receive pool. Keeps arguments that the user gave.
void AddDriverDefaults(Devargs* devargs, uint16_t data_room, uint16_t queues);

// Checks the machine before DPDK does, because its drivers only return -1. Returns NotFound,
// InvalidArgument, PermissionDenied, FailedPrecondition or AlreadyExists with advice what to do.
// Removes the socket file that a dead memif server left.
absl::Status CheckMachine(const Devargs& devargs);

// Whether the driver uses a network interface that stays with the kernel (af_packet, af_xdp).
bool NeedsInterface(Driver driver);

// As rte_dev_probe(). Each port over packet sockets gets a fan-out group of its own: the driver
// derives the group's number from process ID and interface, and processes of two containers may
// have the same. Rings are not subject to the limit of locked memory (RLIMIT_MEMLOCK): their memory
// is the kernel's, and is never swapped out.
int ProbeDevice(const Devargs& devargs);

// As rte_eth_dev_start(), but leaves address and flags of a kernel's interface as they are. DPDK
// sets both anew, and the kernel then forgets all neighbours of the interface, permanent ones too.
int StartDevice(Driver driver, uint16_t port_id);

// The sizes of receive buffers, in bytes after the headroom, that the driver accepts.
struct DataRoom {
  uint16_t least;
  uint16_t most;
};
DataRoom DriverDataRoom(const Devargs& devargs);

// The MTU that this driver carries with buffers of `data_room` bytes; `reported` is the device's
// own.
uint16_t DriverMtu(const Devargs& devargs, uint16_t data_room, uint16_t reported);

// The most receive and send queues that work, whatever the device reports.
uint16_t DriverQueues(Driver driver);

struct Descriptors {
  uint16_t rx;
  uint16_t tx;
};
Descriptors DriverDescriptors(Driver driver);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_PORT_DRIVER_H_
