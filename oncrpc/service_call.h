// A call of a program that is served over the kernel's TCP and UDP: what it asks, and its reply.
// Source: RFC 5531 section 9.
#ifndef POLLUX_ONCRPC_SERVICE_CALL_H_
#define POLLUX_ONCRPC_SERVICE_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "oncrpc/codec.h"
#include "oncrpc/record_handler.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"

namespace pollux::oncrpc {

// A program and the versions of it that there are.
struct ServiceProgram {
  uint32_t program = 0;
  uint32_t low = 0;
  uint32_t high = 0;
};

// Answered once, by any thread; one that is not costs its TCP connection.
class ServiceCall {
 public:
  // Nothing when it has been answered already (another program or version), or is no call.
  static std::optional<ServiceCall> Take(const ServiceProgram& program, std::vector<uint8_t> record,
                                         const CallRoute& route, ReplySender reply);
  ServiceCall(ServiceCall&&) = default;
  ServiceCall& operator=(ServiceCall&&) = delete;

  uint32_t version() const { return header_.version; }
  uint32_t procedure() const { return header_.procedure; }
  const OpaqueAuth& credential() const { return header_.credential; }
  const Gid& client() const { return route_.client; }
  const Gid& server() const { return route_.server; }
  // False: it came by a datagram, and anybody may have claimed to be the client.
  bool connected() const { return route_.connected; }
  // How long a list its reply may have. Short by a datagram: who claims to be another has it sent
  // there, and must not have much sent for little. A longer one is to be had by TCP.
  size_t list_bytes() const { return route_.connected ? kMaxListBytes : kMaxListByDatagram; }

  // Whether the arguments are an Args and nothing else. Views in `*args` live as long as the call.
  template <class Args>
  bool Read(Args* args) const {
    return Decode(XdrReader(absl::MakeConstSpan(record_).subspan(header_bytes_)), args);
  }
  // `max_bytes`: of the results in XDR. Larger ones, and such as the way back does not carry, are a
  // system error.
  template <class Res>
  void Reply(const Res& results, size_t max_bytes = kResultBytes) {
    std::vector<uint8_t> message(std::min(kReplyHeaderBytes + max_bytes, route_.max_reply));
    const Encoded encoded = Encode(results, absl::MakeSpan(message).subspan(kReplyHeaderBytes));
    if (!encoded.ok) return Fail(AcceptStatus::kSystemError);
    Send({.xid = header_.xid}, std::move(message), encoded.stream.size());
  }
  void Fail(AcceptStatus status);
  void Deny(AuthStatus status);

  // As many entries of MOUNT's lists as an NFS server has, each as long as it may be.
  static constexpr size_t kMaxListBytes = 512 * 1024;
  static constexpr size_t kMaxListByDatagram = 256;

 private:
  static constexpr size_t kResultBytes = 8192;

  ServiceCall(std::vector<uint8_t> record, const CallRoute& route, ReplySender reply)
      : record_(std::move(record)), route_(route), reply_(std::move(reply)) {}
  // `message`: room for the header, then so many bytes of results.
  void Send(const ReplyHeader& header, std::vector<uint8_t> message, size_t result_bytes);

  std::vector<uint8_t> record_;  // the header's views point into it, wherever the call goes
  CallRoute route_;
  ReplySender reply_;
  CallHeader header_;
  size_t header_bytes_ = 0;
};

// Gives a server's records to a program.
RecordHandler HandlerOf(const ServiceProgram& program, absl::AnyInvocable<void(ServiceCall)> serve);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_SERVICE_CALL_H_
