// What the serving end of `pollux bench` says in its REP: where READ and WRITE go.
#ifndef POLLUX_TOOLS_BENCH_PEER_HANDSHAKE_H_
#define POLLUX_TOOLS_BENCH_PEER_HANDSHAKE_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::tools {

inline constexpr uint32_t kBenchMaxBytes = 1u << 20;  // of a message, a READ or a WRITE
// Messages that a client may have under way: the server has a receive for each, and one for what
// follows while it takes care of it.
inline constexpr uint32_t kBenchMaxWindow = 256;
inline constexpr uint32_t kBenchReceives = 2 * kBenchMaxWindow;
// Connections of all clients, on each of a server's cores.
inline constexpr size_t kBenchMaxPairs = 128;
inline constexpr uint16_t kBenchVerbsPort = 18515;  // perftest's

// Private data, big-endian: "plxb", version 2 (4 bytes), key (4), length (4), address (8).
struct PeerHandshake {
  static constexpr size_t kBytes = 24;
  static constexpr uint32_t kVersion = 2;

  uint64_t address = 0;
  uint32_t length = 0;  // bytes that READ and WRITE may touch there
  uint32_t key = 0;

  std::array<uint8_t, kBytes> Encode() const;
  // FailedPrecondition when it is no greeting, or one of another version.
  static absl::StatusOr<PeerHandshake> Parse(absl::Span<const uint8_t> private_data);
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_PEER_HANDSHAKE_H_
