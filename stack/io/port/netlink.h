// Requests to rtnetlink and notifications from it. Source: rtnetlink(7), netlink(7).
#ifndef POLLUX_STACK_IO_PORT_NETLINK_H_
#define POLLUX_STACK_IO_PORT_NETLINK_H_

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/types.h"

namespace pollux::io {

// An address as in rtnetlink attributes, 4 or 16 bytes; a view into `gid`.
std::span<const uint8_t> AddressBytes(const Gid& gid);
// Returns AF_INET or AF_INET6.
uint8_t FamilyOf(const Gid& gid);

// A message under construction: header, the structure of its family, attributes.
class NetlinkRequest {
 public:
  NetlinkRequest(uint16_t type, uint16_t flags);
  // Appends the structure that follows the header. Call it once, before Attribute(). A
  // structure that does not fit into kMaxBytes is left out; the requests here are far smaller.
  template <class Body>
  NetlinkRequest& With(const Body& body) {
    Append(&body, sizeof body);
    return *this;
  }
  NetlinkRequest& Attribute(uint16_t type, const void* data, size_t bytes);

  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(bytes_); }

 private:
  static constexpr size_t kMaxBytes = 256;
  void Append(const void* data, size_t bytes);
  alignas(nlmsghdr) uint8_t bytes_[kMaxBytes] = {};
};

// Calls `take` for each attribute in the `bytes` bytes from `first`. Stops at a malformed one.
void ForEachAttribute(const void* first, size_t bytes,
                      absl::FunctionRef<void(uint16_t type, std::span<const uint8_t> value)> take);

// A socket to rtnetlink. Used by one thread.
class NetlinkSocket {
 public:
  // Subscribes to `groups` (RTMGRP_*; 0: for requests only). Errors are those of the kernel.
  static absl::StatusOr<NetlinkSocket> Open(uint32_t groups);
  ~NetlinkSocket();
  NetlinkSocket(NetlinkSocket&& other) noexcept
      : fd_(other.fd_), sequence_(other.sequence_), buffer_(std::move(other.buffer_)) {
    other.fd_ = -1;
  }
  NetlinkSocket& operator=(NetlinkSocket&&) = delete;

  using Take = absl::FunctionRef<void(const nlmsghdr& message)>;
  // Sends a request and passes each message of the answer to `take`. The kernel answers before
  // send() returns; kAnswerMs is a guard against waiting forever. Errors are those of the kernel.
  absl::Status Ask(NetlinkRequest& request, Take take);
  // Passes the notifications that have arrived to `take`. Returns false if notifications were lost
  // (the kernel's buffer overflowed): all state must then be requested again.
  bool Drain(Take take);

 private:
  static constexpr int kAnswerMs = 1000;
  static constexpr size_t kBufferBytes = 32768;  // dump messages of the kernel are no larger

  explicit NetlinkSocket(int fd) : fd_(fd) {}
  // Passes the messages in the buffer to `take`. Returns whether they include the end of the
  // answer.
  bool HandOn(size_t bytes, Take take, absl::Status* status);

  int fd_;
  uint32_t sequence_ = 0;
  // On the heap: some programs create threads with stacks of 16 KiB, which thread-local variables
  // share.
  std::unique_ptr<uint8_t[]> buffer_ = std::make_unique<uint8_t[]>(kBufferBytes);
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_NETLINK_H_
