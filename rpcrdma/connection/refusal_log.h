// A rate-limited log of refused messages from peers.
#ifndef POLLUX_RPCRDMA_CONNECTION_REFUSAL_LOG_H_
#define POLLUX_RPCRDMA_CONNECTION_REFUSAL_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "stack/base/log_rate_limiter.h"
#include "stack/base/socket_address.h"

namespace pollux::rpcrdma {

// For all connections of one client or server; used on its core. It limits the lines per minute for
// each address and in total, and counts the suppressed lines.
class RefusalLog {
 public:
  static constexpr uint32_t kLinesOfAddress = 8;  // per minute
  static constexpr uint32_t kLines = 64;          // per minute

  // Receives a line without its newline. Called on the core, so it must not block.
  using Sink = absl::AnyInvocable<void(const std::string& line)>;
  void SetSink(Sink sink) { sink_ = std::move(sink); }

  void Write(const SocketAddress& peer, std::string_view what, uint64_t now_ns);

 private:
  Sink sink_;
  PeerLogRateLimiter lines_{kLinesOfAddress, kLines};
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_REFUSAL_LOG_H_
