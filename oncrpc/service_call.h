// A call to a program that is served over the kernel's TCP and UDP, and its reply. Source: RFC 5531
// section 9.
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

// A program and its supported versions.
struct ServiceProgram {
  uint32_t program = 0;
  uint32_t low = 0;
  uint32_t high = 0;
};

// Any thread may answer it, once. Destroying an unanswered call closes its TCP connection.
class ServiceCall {
 public:
  // Parses a record. Returns nothing if it is not a call, or if it was answered here, because the
  // program or version is not served.
  static std::optional<ServiceCall> Take(const ServiceProgram& program, std::vector<uint8_t> record,
                                         const CallRoute& route, ReplySender reply);
  ServiceCall(ServiceCall&&) = default;
  ServiceCall& operator=(ServiceCall&&) = delete;

  uint32_t version() const { return header_.version; }
  uint32_t procedure() const { return header_.procedure; }
  const OpaqueAuth& credential() const { return header_.credential; }
  const Gid& client() const { return route_.client; }
  const Gid& server() const { return route_.server; }
  // False: the call arrived in a datagram, so the client's address may be forged.
  bool connected() const { return route_.connected; }
  // The maximum size of a list in the reply. It is small for datagrams: a sender with a forged
  // address must not be able to direct large replies at another host. The client can get a longer
  // list over TCP.
  size_t list_bytes() const { return route_.connected ? kMaxListBytes : kMaxListByDatagram; }

  // Decodes the arguments. Returns whether they are an Args and nothing else. Views in `*args` are
  // valid as long as the call.
  template <class Args>
  bool Read(Args* args) const {
    return Decode(XdrReader(absl::MakeConstSpan(record_).subspan(header_bytes_)), args);
  }
  // Sends the results, at most `max_bytes` of XDR. If they are larger, or larger than the transport
  // allows, sends a system error.
  template <class Res>
  void Reply(const Res& results, size_t max_bytes = kResultBytes) {
    std::vector<uint8_t> message(std::min(kReplyHeaderBytes + max_bytes, route_.max_reply));
    const Encoded encoded = Encode(results, absl::MakeSpan(message).subspan(kReplyHeaderBytes));
    if (!encoded.ok) return Fail(AcceptStatus::kSystemError);
    Send({.xid = header_.xid}, std::move(message), encoded.stream.size());
  }
  void Fail(AcceptStatus status);
  void Deny(AuthStatus status);

  // Enough for the lists of MOUNT at an NFS server's limit of entries, each of the maximum length.
  static constexpr size_t kMaxListBytes = 512 * 1024;
  static constexpr size_t kMaxListByDatagram = 256;

 private:
  static constexpr size_t kResultBytes = 8192;

  ServiceCall(std::vector<uint8_t> record, const CallRoute& route, ReplySender reply)
      : record_(std::move(record)), route_(route), reply_(std::move(reply)) {}
  // `message`: space for the header, followed by `result_bytes` of results.
  void Send(const ReplyHeader& header, std::vector<uint8_t> message, size_t result_bytes);

  // the header's views point into it; moving the call keeps them valid
  std::vector<uint8_t> record_;
  CallRoute route_;
  ReplySender reply_;
  CallHeader header_;
  size_t header_bytes_ = 0;
};

// Returns a handler that parses a service's records and passes the calls to `serve`.
RecordHandler HandlerOf(const ServiceProgram& program, absl::AnyInvocable<void(ServiceCall)> serve);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_SERVICE_CALL_H_
