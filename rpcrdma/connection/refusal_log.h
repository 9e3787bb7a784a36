// The log of what peers sent that was refused: in words, and not more than anybody reads.
#ifndef POLLUX_RPCRDMA_CONNECTION_REFUSAL_LOG_H_
#define POLLUX_RPCRDMA_CONNECTION_REFUSAL_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "stack/base/log_rate_limiter.h"
#include "stack/base/socket_address.h"
#include "stack/base/types.h"

namespace pollux::rpcrdma {

// Of all connections of a client or a server; on its core. A peer that comes back again and again
// is told of so often a minute, and many of them together so often: what is left out is counted.
class RefusalLog {
 public:
  static constexpr uint32_t kLinesOfAddress = 8;  // a minute
  static constexpr uint32_t kLines = 64;          // a minute
  // Addresses with a budget of their own: those heard of last. One that comes back after so many
  // others has a fresh one, within kLines.
  static constexpr size_t kAddresses = 64;

  // Takes a line without its end. On the core: must not wait.
  using Sink = absl::AnyInvocable<void(const std::string& line)>;
  void SetSink(Sink sink) { sink_ = std::move(sink); }

  void Write(const SocketAddress& peer, std::string_view what, uint64_t now_ns);

 private:
  struct OfAddress {
    Gid address;
    uint64_t used_ns = 0;
    LogRateLimiter budget{kLinesOfAddress};
  };
  LogRateLimiter& BudgetOf(const Gid& address, uint64_t now_ns);

  Sink sink_;
  LogRateLimiter all_{kLines};
  std::array<OfAddress, kAddresses> addresses_;
  size_t address_count_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_REFUSAL_LOG_H_
