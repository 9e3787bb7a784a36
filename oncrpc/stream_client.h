// ONC RPC over a stream of the kernel (TCP, or a Unix socket), one call at a time: for programs
// beside those that RDMA carries. Source: RFC 5531, record marking in section 11.
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
  int timeout_s = 10;  // of a call, and of connecting
  size_t max_reply_bytes = size_t{1} << 20;
};

// Calls block: not for a polled core. Not to be shared by threads.
class StreamClient {
 public:
  // By TCP, from a reserved port where this process may have one, with AUTH_SYS. `name` is what
  // errors call the service. Unavailable when it cannot be reached, with why. InvalidArgument for a
  // credential past its bounds.
  static absl::StatusOr<StreamClient> Connect(const SocketAddress& server, uint32_t program,
                                              uint32_t version, const AuthSys& credential,
                                              std::string name, const StreamLimits& limits = {});
  // By a connected socket, without a credential.
  StreamClient(Fd socket, uint32_t program, uint32_t version, std::string name,
               const StreamLimits& limits);

  // What `results` points to stays until the next call. Unavailable when the connection fails or no
  // answer comes; Unimplemented, PermissionDenied, InvalidArgument, Internal as the RPC layer
  // answers; DataLoss when the answer does not decode.
  template <class Args, class Res>
  absl::Status Call(uint32_t procedure, const Args& arguments, Res* results) {
    std::vector<uint8_t> space(kMaxArguments);
    const Encoded encoded = Encode(arguments, absl::MakeSpan(space));
    if (!encoded.ok) return TooLong();
    auto reply = CallEncoded(procedure, encoded.stream);
    if (!reply.ok()) return reply.status();
    return Decode(XdrReader(*reply), results) ? absl::OkStatus() : Garbage();
  }
  // The same, both in XDR: the results of a call that succeeded.
  absl::StatusOr<absl::Span<const uint8_t>> CallEncoded(uint32_t procedure,
                                                        absl::Span<const uint8_t> arguments);

 private:
  static constexpr size_t kMaxArguments = 4096;  // bytes

  absl::Status TooLong() const;
  absl::Status Garbage() const;

  Fd socket_;
  ProgramBinding binding_;  // program and version alone
  AuthFlavor flavor_ = AuthFlavor::kNone;
  std::vector<uint8_t> credential_;
  std::string name_;
  StreamLimits limits_;
  uint32_t xid_;
  std::vector<uint8_t> record_;  // the last reply
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_STREAM_CLIENT_H_
