// A call of ONC RPC and its reply over a stream of the kernel's, as records.
// Source: RFC 5531 section 11.
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

// Sends `message` as one record by the connected socket `fd`, and returns the record that comes
// back, of at most `max_reply` bytes. Blocks until `deadline` at most, however slowly the peer goes
// on: not for a polled core. `name` is what errors call the peer. Unavailable when the connection
// fails or no whole answer comes in time, DataLoss when it is too large; after both the connection
// is of no more use.
absl::StatusOr<std::vector<uint8_t>> ExchangeRecord(int fd, absl::Span<const uint8_t> message,
                                                    size_t max_reply,
                                                    std::chrono::steady_clock::time_point deadline,
                                                    const std::string& name);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RECORD_EXCHANGE_H_
