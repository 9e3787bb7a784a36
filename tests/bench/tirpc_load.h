// rpcgen's program of examples/rpcgen, called by one CLIENT of libtirpc, one call after the
// other: over Pollux, and over TCP, by loopback and by a veth pair.
#ifndef POLLUX_TESTS_BENCH_TIRPC_LOAD_H_
#define POLLUX_TESTS_BENCH_TIRPC_LOAD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"

namespace pollux::bench {

// Means of one call, in seconds. READ and WRITE of `bytes` are GET and PUT of a block.
struct TirpcTimes {
  double null_s = 0;
  double read_4k_s = 0;
  double write_4k_s = 0;
  double read_1m_s = 0;
  double write_1m_s = 0;
  // Over Pollux: bytes copied in memory for each that was moved in chunks, besides the one copy
  // that the stack makes of each packet.
  double client_copies = 0;
  double server_copies = 0;
};

// Of `calls` NULL calls, and proportionally fewer of the others. Both serve by a thread of their
// own; over Pollux each device is polled by whoever waits for it, and by one thread more when
// nobody has for a while. Errors say which call failed, and how.
absl::StatusOr<TirpcTimes> TimePollux(engine::Device::Pair devices, uint64_t calls);
// A server that polls instead of sleeping until a call comes is the quickest that TCP has.
enum class TcpServer : uint8_t { kSleeps, kPolls };
absl::StatusOr<TirpcTimes> TimeTcp(uint64_t calls, TcpServer server = TcpServer::kSleeps);
// By a veth pair between two network namespaces; PermissionDenied where none may be made.
absl::StatusOr<TirpcTimes> TimeTcpByVeth(uint64_t calls);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_TIRPC_LOAD_H_
