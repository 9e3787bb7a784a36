// The private data in the REP of a `pollux bench` server: the memory for READ and WRITE.
#ifndef POLLUX_TOOLS_BENCH_PEER_HANDSHAKE_H_
#define POLLUX_TOOLS_BENCH_PEER_HANDSHAKE_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::tools {

inline constexpr uint32_t kBenchMaxBytes = 1u << 20;  // per message, READ or WRITE
// The most outstanding messages of a client. The server has two receives for each: the second is
// for the message that follows while the first is being handled.
inline constexpr uint32_t kBenchMaxWindow = 256;
inline constexpr uint32_t kBenchReceives = 2 * kBenchMaxWindow;
// The most connections of all clients together on each core of a server.
inline constexpr size_t kBenchMaxPairs = 128;
inline constexpr uint16_t kBenchVerbsPort = 18515;  // as perftest

// Private data, big-endian: "plxb", version 2 (4 bytes), key (4), length (4), address (8).
struct PeerHandshake {
  static constexpr size_t kBytes = 24;
  static constexpr uint32_t kVersion = 2;

  uint64_t address = 0;
  uint32_t length = 0;  // bytes that READ and WRITE may access
  uint32_t key = 0;

  std::array<uint8_t, kBytes> Encode() const;
  // FailedPrecondition if the data is not a handshake, or has another version.
  static absl::StatusOr<PeerHandshake> Parse(absl::Span<const uint8_t> private_data);
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_PEER_HANDSHAKE_H_
