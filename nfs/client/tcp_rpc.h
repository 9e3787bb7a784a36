// ONC RPC over TCP through the kernel, one call at a time: for what goes with NFS and is not
// carried by RDMA. Source: RFC 5531, record marking in section 11.
#ifndef POLLUX_NFS_CLIENT_TCP_RPC_H_
#define POLLUX_NFS_CLIENT_TCP_RPC_H_

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
#include "oncrpc/xdr.h"
#include "stack/base/socket_address.h"

namespace pollux::nfs {

// Blocks, for up to kTimeoutSeconds a call, and to connect: not for a polled core. Not to be shared
// by threads.
class TcpRpc {
 public:
  static constexpr int kTimeoutSeconds = 10;
  static constexpr uint32_t kMaxRecord = 1 << 20;  // bytes of a reply

  // From a reserved port where this process may have one. `name` is what errors call the service.
  // Unavailable when it cannot be reached, with why. InvalidArgument for a credential past its
  // bounds.
  static absl::StatusOr<TcpRpc> Connect(const SocketAddress& server, uint32_t program,
                                        uint32_t version, const oncrpc::AuthSys& credential,
                                        std::string name);
  TcpRpc(TcpRpc&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        binding_(std::move(other.binding_)),
        credential_(std::move(other.credential_)),
        name_(std::move(other.name_)),
        xid_(other.xid_),
        record_(std::move(other.record_)) {}
  TcpRpc& operator=(TcpRpc&&) = delete;
  ~TcpRpc();

  // What `results` points to stays until the next call. Unavailable when the connection fails or no
  // answer comes; Unimplemented, PermissionDenied, InvalidArgument, Internal as the RPC layer
  // answers; DataLoss when the answer does not decode.
  template <class Args, class Res>
  absl::Status Call(uint32_t procedure, const Args& arguments, Res* results) {
    std::vector<uint8_t> space(kMaxArguments);
    const oncrpc::Encoded encoded = oncrpc::Encode(arguments, absl::MakeSpan(space));
    if (!encoded.ok) return TooLong();
    auto reply = CallEncoded(procedure, encoded.stream);
    if (!reply.ok()) return reply.status();
    return oncrpc::Decode(oncrpc::XdrReader(*reply), results) ? absl::OkStatus() : Garbage();
  }
  // The same, both in XDR: the results of a call that succeeded.
  absl::StatusOr<absl::Span<const uint8_t>> CallEncoded(uint32_t procedure,
                                                        absl::Span<const uint8_t> arguments);

 private:
  static constexpr size_t kMaxArguments = 4096;  // bytes

  TcpRpc(int fd, oncrpc::ProgramBinding binding, std::vector<uint8_t> credential, std::string name,
         uint32_t xid)
      : fd_(fd),
        binding_(std::move(binding)),
        credential_(std::move(credential)),
        name_(std::move(name)),
        xid_(xid) {}
  absl::Status TooLong() const;
  absl::Status Garbage() const;

  int fd_;
  oncrpc::ProgramBinding binding_;  // program and version alone
  std::vector<uint8_t> credential_;
  std::string name_;
  uint32_t xid_;
  std::vector<uint8_t> record_;  // the last reply
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_CLIENT_TCP_RPC_H_
