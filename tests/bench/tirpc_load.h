// The program of examples/rpcgen, called by one CLIENT of libtirpc, one call at a time: over
// Pollux, over TCP by loopback, and over TCP by a veth pair.
#ifndef POLLUX_TESTS_BENCH_TIRPC_LOAD_H_
#define POLLUX_TESTS_BENCH_TIRPC_LOAD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"

namespace pollux::bench {

// Mean times of one call in seconds. READ and WRITE stand for GET and PUT of a block.
struct TirpcTimes {
  double null_s = 0;
  double read_4k_s = 0;
  double write_4k_s = 0;
  double read_1m_s = 0;
  double write_1m_s = 0;
  // Over Pollux: bytes copied in memory per byte transferred in chunks, besides the one copy that
  // the stack makes of each packet.
  double client_copies = 0;
  double server_copies = 0;
};

// Measures `calls` NULL calls and proportionally fewer of the others. The server has its own
// thread. Over Pollux, each device is polled by the threads that wait for it, and by an additional
// thread if none has waited for a while. Errors state which call failed, and how.
absl::StatusOr<TirpcTimes> TimePollux(engine::Device::Pair devices, uint64_t calls);
// A server that polls instead of sleeping until a call arrives is the fastest one over TCP.
enum class TcpServer : uint8_t { kSleeps, kPolls };
absl::StatusOr<TirpcTimes> TimeTcp(uint64_t calls, TcpServer server = TcpServer::kSleeps);
// Uses a veth pair between two network namespaces. PermissionDenied if these may not be created.
absl::StatusOr<TirpcTimes> TimeTcpByVeth(uint64_t calls);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_TIRPC_LOAD_H_
