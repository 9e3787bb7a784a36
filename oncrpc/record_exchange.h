// Sends an ONC RPC call and receives its reply, as records on a kernel stream socket. Source: RFC
// 5531 section 11.
#ifndef POLLUX_ONCRPC_RECORD_EXCHANGE_H_
#define POLLUX_ONCRPC_RECORD_EXCHANGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pollux::oncrpc {

inline constexpr int kMaxRecordFragments = 1024;

// Sends `message` as one record over the connected socket `fd` and returns the record that the peer
// sends, of at most `max_reply` bytes. Blocks until `deadline` at the latest, even if the peer
// sends slowly, so it must not be used on a polled core. `name` is the peer's name in errors.
// Unavailable if the connection fails or the reply is not complete in time; DataLoss if the reply
// is too large. The connection cannot be used after an error.
absl::StatusOr<std::vector<uint8_t>> ExchangeRecord(int fd, absl::Span<const uint8_t> message,
                                                    size_t max_reply,
                                                    std::chrono::steady_clock::time_point deadline,
                                                    const std::string& name);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RECORD_EXCHANGE_H_
