// The wires of the bench, between two devices of this process, each on its own core.
#ifndef POLLUX_TESTS_BENCH_WIRES_H_
#define POLLUX_TESTS_BENCH_WIRES_H_

#include <string>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "stack/io/link/impairment.h"
#include "tests/bench/device_load.h"

namespace pollux::bench {

// kAfPacket is a veth pair between two network namespaces that the bench creates, with a packet
// socket at each end.
enum class Wire { kRing, kMemif, kAfPacket };
const char* WireName(Wire wire);

// Opens two connected devices with the addresses 192.0.2.1 and 192.0.2.2. Each has the link-layer
// address of the other, so that the first frames of a measurement need not wait for it.
// `impairment` applies to the first device in both directions, so each frame is subject to it once.
// PermissionDenied if the wire needs a network namespace and none may be created.
absl::StatusOr<engine::Device::Pair> OpenWire(Wire wire,
                                              const io::ImpairmentOptions& impairment = {});
// Closes both devices and returns all their frames to the pools.
void CloseWire(engine::Device::Pair& pair);

// The link of a device that is not polled, after the removal of frames left in it.
WireEnd BareEnd(engine::Device& device);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_WIRES_H_
