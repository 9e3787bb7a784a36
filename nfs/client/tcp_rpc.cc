#include "nfs/client/tcp_rpc.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rpcrdma/reply_status.h"
#include "rpcrdma/rpc_message.h"
#include "rpcrdma/stream_socket.h"
#include "stack/base/byte_order.h"
#include "stack/base/random.h"

namespace pollux::nfs {
namespace {

constexpr uint32_t kLastFragment = 0x80000000;
constexpr size_t kMark = 4;

}  // namespace

absl::StatusOr<TcpRpc> TcpRpc::Connect(const cm::Endpoint& server, uint32_t program,
                                       uint32_t version, const AuthSys& credential,
                                       std::string name) {
  std::vector<uint8_t> body(rpcrdma::kMaxAuthBytes);
  const Encoded encoded = Encode(credential, absl::MakeSpan(body));
  if (!encoded.ok)
    return absl::InvalidArgumentError(absl::StrCat(name, ": too large a credential"));
  body.resize(encoded.stream.size());
  const int fd = rpcrdma::ConnectTcp(server, kTimeoutSeconds, rpcrdma::SourcePort::kReserved);
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

absl::Status TcpRpc::Broken(const char* what) const {
  const char* why = errno == EAGAIN || errno == EINPROGRESS ? "no answer in time" : strerror(errno);
  return absl::UnavailableError(absl::StrCat(name_, ", ", what, ": ", why));
}

absl::Status TcpRpc::Send(absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Broken("sending");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status TcpRpc::Receive(absl::Span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = recv(fd_, bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) return Broken("receiving");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status TcpRpc::ReceiveRecord() {
  record_.clear();
  for (int fragment = 0; fragment < kMaxFragments; ++fragment) {
    uint8_t mark[kMark];
    if (absl::Status status = Receive(absl::MakeSpan(mark)); !status.ok()) return status;
    const uint32_t word = LoadBe32(mark);
    const uint32_t bytes = word & ~kLastFragment;
    if (bytes > kMaxRecord - record_.size()) return Garbage();
    const size_t before = record_.size();
    record_.resize(before + bytes);
    absl::Status status = Receive(absl::MakeSpan(record_).subspan(before));
    if (!status.ok() || (word & kLastFragment) != 0) return status;
  }
  return Garbage();
}

absl::StatusOr<absl::Span<const uint8_t>> TcpRpc::CallEncoded(uint32_t procedure,
                                                              absl::Span<const uint8_t> arguments) {
  rpcrdma::CallHeader call{.xid = ++xid_,
                           .program = binding_.program,
                           .version = binding_.version,
                           .procedure = procedure};
  call.credential = {.flavor = rpcrdma::AuthFlavor::kSys, .body = credential_};
  std::vector<uint8_t> message(kMark + rpcrdma::CallHeaderBytes(call));
  StoreBe32(message.data(),
            kLastFragment | static_cast<uint32_t>(message.size() - kMark + arguments.size()));
  rpcrdma::EmitCall(call, absl::MakeSpan(message).subspan(kMark));
  message.insert(message.end(), arguments.begin(), arguments.end());
  absl::Status status = Send(message);
  if (status.ok()) status = ReceiveRecord();
  if (!status.ok()) return status;
  rpcrdma::ReplyHeader reply;
  const size_t header = rpcrdma::ParseReply(record_, &reply);
  if (header == 0 || reply.xid != call.xid) return Garbage();
  status = rpcrdma::StatusOf(reply, binding_, procedure);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(name_, ": ", status.message()));
  }
  return absl::MakeConstSpan(record_).subspan(header);
}

}  // namespace pollux::nfs
