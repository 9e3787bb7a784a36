// Requests to and news from rtnetlink. Source: rtnetlink(7), netlink(7).
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

// An address as rtnetlink's attributes hold it, 4 bytes or 16; a view into `gid`.
std::span<const uint8_t> AddressBytes(const Gid& gid);
// AF_INET or AF_INET6.
uint8_t FamilyOf(const Gid& gid);

// A message under construction: header, the family's structure, attributes.
class NetlinkRequest {
 public:
  NetlinkRequest(uint16_t type, uint16_t flags);
  // Appends the structure that follows the header, once, and attributes after it. Beyond
  // kMaxBytes what does not fit is left out: requests here are far smaller.
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

// The attributes of a message from `first` on, `bytes` long in all. Stops at a malformed one.
void ForEachAttribute(const void* first, size_t bytes,
                      absl::FunctionRef<void(uint16_t type, std::span<const uint8_t> value)> take);

// A socket to rtnetlink. One thread.
class NetlinkSocket {
 public:
  // Subscribed to `groups` (RTMGRP_*; 0: for requests). Internal when the kernel refuses.
  static absl::StatusOr<NetlinkSocket> Open(uint32_t groups);
  ~NetlinkSocket();
  NetlinkSocket(NetlinkSocket&& other) noexcept
      : fd_(other.fd_), sequence_(other.sequence_), buffer_(std::move(other.buffer_)) {
    other.fd_ = -1;
  }
  NetlinkSocket& operator=(NetlinkSocket&&) = delete;

  using Take = absl::FunctionRef<void(const nlmsghdr& message)>;
  // Sends and hands every message of the answer on, to its end. The kernel answers in the same
  // call; a guard of kAnswerMs stands against waiting for ever. Errors are the kernel's.
  absl::Status Ask(NetlinkRequest& request, Take take);
  // Hands on what has come without being asked for. False when news were lost (the kernel's buffer
  // ran over): everything has to be asked for anew.
  bool Drain(Take take);

 private:
  static constexpr int kAnswerMs = 1000;
  static constexpr size_t kBufferBytes = 32768;  // what the kernel makes its dumps' pieces of

  explicit NetlinkSocket(int fd) : fd_(fd) {}
  // Whether the end of the answer was among the messages.
  bool HandOn(size_t bytes, Take take, absl::Status* status);

  int fd_;
  uint32_t sequence_ = 0;
  // From the heap: programs that bring threads of their own make them with stacks of 16 KiB, and
  // what is thread-local takes its room there.
  std::unique_ptr<uint8_t[]> buffer_ = std::make_unique<uint8_t[]>(kBufferBytes);
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_NETLINK_H_
