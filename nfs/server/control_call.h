// A call of a program that goes with NFS (MOUNT, NLM, NSM, the portmapper) as it came over TCP or
// UDP: what it asks, and the way back. Source: RFC 5531 section 9.
#ifndef POLLUX_NFS_SERVER_CONTROL_CALL_H_
#define POLLUX_NFS_SERVER_CONTROL_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "nfs/export/credential.h"
#include "nfs/server/record_server.h"
#include "oncrpc/codec.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"

namespace pollux::nfs {

// A program and the versions of it that there are.
struct ControlProgram {
  uint32_t program = 0;
  uint32_t low = 0;
  uint32_t high = 0;
};

// Answered once, by any thread; one that is not costs its TCP connection.
class ControlCall {
 public:
  // Nothing when it has been answered already (another program or version), or is no call.
  static std::optional<ControlCall> Take(const ControlProgram& program, std::vector<uint8_t> record,
                                         const RecordServer::Ends& ends, RecordServer::Reply reply);
  ControlCall(ControlCall&&) = default;
  ControlCall& operator=(ControlCall&&) = delete;

  uint32_t version() const { return header_.version; }
  uint32_t procedure() const { return header_.procedure; }
  const oncrpc::OpaqueAuth& credential() const { return header_.credential; }
  const Gid& client() const { return ends_.client; }
  const Gid& server() const { return ends_.server; }
  // False: it came by a datagram, and anybody may have claimed to be the client.
  bool connected() const { return ends_.connected; }
  // How long a list its reply may have. Short by a datagram: who claims to be another has it sent
  // there, and must not have much sent for little. A longer one is to be had by TCP.
  size_t list_bytes() const { return ends_.connected ? kMaxListBytes : kMaxListByDatagram; }

  // Whether the arguments are an Args and nothing else. Views in `*args` live as long as the call.
  template <class Args>
  bool Read(Args* args) const {
    return oncrpc::Decode(oncrpc::XdrReader(absl::MakeConstSpan(record_).subspan(header_bytes_)),
                          args);
  }
  // `max_bytes`: of the results in XDR. Larger ones, and such as the way back does not carry, are a
  // system error.
  template <class Res>
  void Answer(const Res& results, size_t max_bytes = kResultBytes) {
    std::vector<uint8_t> message(std::min(oncrpc::kReplyHeaderBytes + max_bytes, ends_.max_reply));
    const oncrpc::Encoded encoded =
        oncrpc::Encode(results, absl::MakeSpan(message).subspan(oncrpc::kReplyHeaderBytes));
    if (!encoded.ok) return Fail(oncrpc::AcceptStatus::kSystemError);
    Send({.xid = header_.xid}, std::move(message), encoded.stream.size());
  }
  void Fail(oncrpc::AcceptStatus status);
  void Deny(AuthStatus status);

  // MountCalls::kMaxRemembered of the longest, or as many exports with their clients.
  static constexpr size_t kMaxListBytes = 512 * 1024;
  static constexpr size_t kMaxListByDatagram = 256;

 private:
  static constexpr size_t kResultBytes = 8192;

  ControlCall(std::vector<uint8_t> record, const RecordServer::Ends& ends,
              RecordServer::Reply reply)
      : record_(std::move(record)), ends_(ends), reply_(std::move(reply)) {}
  // `message`: room for the header, then so many bytes of results.
  void Send(const oncrpc::ReplyHeader& header, std::vector<uint8_t> message, size_t result_bytes);

  std::vector<uint8_t> record_;  // the header's views point into it, wherever the call goes
  RecordServer::Ends ends_;
  RecordServer::Reply reply_;
  oncrpc::CallHeader header_;
  size_t header_bytes_ = 0;
};

// Gives a server's records to a program.
RecordServer::Handler HandlerOf(const ControlProgram& program,
                                absl::AnyInvocable<void(ControlCall)> serve);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_CONTROL_CALL_H_
