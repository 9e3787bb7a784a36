#include "nfs/client/tcp_rpc.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "oncrpc/record_exchange.h"
#include "oncrpc/reply_status.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/stream_socket.h"
#include "stack/base/random.h"

namespace pollux::nfs {

absl::StatusOr<TcpRpc> TcpRpc::Connect(const SocketAddress& server, uint32_t program,
                                       uint32_t version, const oncrpc::AuthSys& credential,
                                       std::string name) {
  std::vector<uint8_t> body(oncrpc::kMaxAuthBytes);
  const oncrpc::Encoded encoded = oncrpc::Encode(credential, absl::MakeSpan(body));
  if (!encoded.ok)
    return absl::InvalidArgumentError(absl::StrCat(name, ": too large a credential"));
  body.resize(encoded.stream.size());
  const int fd = oncrpc::ConnectTcp(server, kTimeoutSeconds, oncrpc::SourcePort::kReserved);
  if (fd < 0) {
    return absl::UnavailableError(absl::StrCat(
        name, ": ", strerror(errno),
        "; this host's kernel asks it over TCP, by a route and an address of its own"));
  }
  return TcpRpc(fd, {.program = program, .version = version, .procedures = {}}, std::move(body),
                std::move(name), Random(Random::SystemSeed()).Next32());
}

TcpRpc::~TcpRpc() {
  if (fd_ >= 0) close(fd_);
}

absl::Status TcpRpc::TooLong() const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ": a path is longer than it can be told"));
}

absl::Status TcpRpc::Garbage() const {
  return absl::DataLossError(absl::StrCat(name_, ": the answer does not decode"));
}

absl::StatusOr<absl::Span<const uint8_t>> TcpRpc::CallEncoded(uint32_t procedure,
                                                              absl::Span<const uint8_t> arguments) {
  oncrpc::CallHeader call{.xid = ++xid_,
                          .program = binding_.program,
                          .version = binding_.version,
                          .procedure = procedure};
  call.credential = {.flavor = oncrpc::AuthFlavor::kSys, .body = credential_};
  std::vector<uint8_t> message(oncrpc::CallHeaderBytes(call));
  oncrpc::EmitCall(call, absl::MakeSpan(message));
  message.insert(message.end(), arguments.begin(), arguments.end());
  auto record = oncrpc::ExchangeRecord(
      fd_, message, kMaxRecord,
      std::chrono::steady_clock::now() + std::chrono::seconds(kTimeoutSeconds), name_);
  if (!record.ok()) return record.status();
  record_ = *std::move(record);
  oncrpc::ReplyHeader reply;
  const size_t header = oncrpc::ParseReply(record_, &reply);
  if (header == 0 || reply.xid != call.xid) return Garbage();
  const absl::Status status = oncrpc::StatusOf(reply, binding_, procedure);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(name_, ": ", status.message()));
  }
  return absl::MakeConstSpan(record_).subspan(header);
}

}  // namespace pollux::nfs
