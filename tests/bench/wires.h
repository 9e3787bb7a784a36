// The wires that the bench runs over: two devices of this process, each on its own core.
#ifndef POLLUX_TESTS_BENCH_WIRES_H_
#define POLLUX_TESTS_BENCH_WIRES_H_

#include <string>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "stack/io/link/impairment.h"
#include "tests/bench/device_load.h"

namespace pollux::bench {

// The last is a veth pair between two network namespaces of the bench's own, with a packet socket
// at each end.
enum class Wire { kRing, kMemif, kAfPacket };
const char* WireName(Wire wire);

// 192.0.2.1 and 192.0.2.2, joined, each of which knows the other's link-layer address: the first
// frames of a measurement neither wait for one nor are lost for want of it. The first is impaired
// so, both ways: each frame meets it once.
// PermissionDenied where no network namespace may be made for the wire.
absl::StatusOr<engine::Device::Pair> OpenWire(Wire wire,
                                              const io::ImpairmentOptions& impairment = {});
// Hands back every frame of both.
void CloseWire(engine::Device::Pair& pair);

// The bare link of a device that nobody polls, emptied of what is left in it.
WireEnd BareEnd(engine::Device& device);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_WIRES_H_
