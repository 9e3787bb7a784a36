// ONC RPC over a kernel stream socket (TCP or Unix), one call at a time: for the programs that do
// not run over RDMA (such as MOUNT and rpcbind). Source: RFC 5531, record marking in section 11.
#ifndef POLLUX_ONCRPC_STREAM_CLIENT_H_
#define POLLUX_ONCRPC_STREAM_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "oncrpc/auth_sys.h"
#include "oncrpc/binding.h"
#include "oncrpc/codec.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/stream_socket.h"
#include "oncrpc/xdr.h"
#include "stack/base/fd.h"

namespace pollux::oncrpc {

struct StreamLimits {
  int timeout_s = 10;  // of a call and of connecting
  size_t max_reply_bytes = size_t{1} << 20;
};

// Calls block, so they must not be made on a polled core. Not thread-safe.
class StreamClient {
 public:
  // Connects by TCP, from a reserved port if this process may use one, and uses AUTH_SYS. `name` is
  // the service's name in errors; `from` is the source address, as for ConnectTcp(). Unavailable,
  // with the reason, if the service cannot be reached. InvalidArgument if the credential exceeds
  // its limits.
  static absl::StatusOr<StreamClient> Connect(const SocketAddress& server, uint32_t program,
                                              uint32_t version, const AuthSys& credential,
                                              std::string name, const StreamLimits& limits = {},
                                              const Gid& from = {});
  // Uses a connected socket, without a credential.
  StreamClient(Fd socket, uint32_t program, uint32_t version, std::string name,
               const StreamLimits& limits);

  // Views in `*results` are valid until the next call. Unavailable if the connection fails or there
  // is no reply in time; Unimplemented, PermissionDenied, InvalidArgument or Internal for an RPC
  // reply that reports an error (see CallDone); DataLoss if the reply cannot be decoded.
  template <class Args, class Res>
  absl::Status Call(uint32_t procedure, const Args& arguments, Res* results) {
    std::vector<uint8_t> space(kMaxArguments);
    const Encoded encoded = Encode(arguments, absl::MakeSpan(space));
    if (!encoded.ok) return TooLong();
    auto reply = CallEncoded(procedure, encoded.stream);
    if (!reply.ok()) return reply.status();
    return Decode(XdrReader(*reply), results) ? absl::OkStatus() : Garbage();
  }
  // The same with arguments and results in XDR; returns the results of a call that succeeded.
  absl::StatusOr<absl::Span<const uint8_t>> CallEncoded(uint32_t procedure,
                                                        absl::Span<const uint8_t> arguments);

 private:
  static constexpr size_t kMaxArguments = 4096;  // bytes

  absl::Status TooLong() const;
  absl::Status Garbage() const;

  Fd socket_;
  ProgramBinding binding_;  // only program and version are set
  AuthFlavor flavor_ = AuthFlavor::kNone;
  std::vector<uint8_t> credential_;
  std::string name_;
  StreamLimits limits_;
  uint32_t xid_;
  std::vector<uint8_t> record_;  // the last reply
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_STREAM_CLIENT_H_
