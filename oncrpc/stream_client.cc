#include "oncrpc/stream_client.h"

#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "oncrpc/record_exchange.h"
#include "oncrpc/reply_status.h"
#include "stack/base/random.h"

namespace pollux::oncrpc {

StreamClient::StreamClient(Fd socket, uint32_t program, uint32_t version, std::string name,
                           const StreamLimits& limits)
    : socket_(std::move(socket)),
      binding_{.program = program, .version = version, .procedures = {}, .others = {}},
      name_(std::move(name)),
      limits_(limits),
      xid_(Random(Random::SystemSeed()).Next32()) {}

absl::StatusOr<StreamClient> StreamClient::Connect(const SocketAddress& server, uint32_t program,
                                                   uint32_t version, const AuthSys& credential,
                                                   std::string name, const StreamLimits& limits,
                                                   const Gid& from) {
  std::vector<uint8_t> body(kMaxAuthBytes);
  const Encoded encoded = Encode(credential, absl::MakeSpan(body));
  if (!encoded.ok) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the credential is too large"));
  }
  body.resize(encoded.stream.size());
  Fd socket(ConnectTcp(server, limits.timeout_s, SourcePort::kReserved, from));
  if (!socket.ok()) {
    return absl::UnavailableError(absl::StrCat(
        name, ": ", strerror(errno),
        "; this host's kernel connects to it over TCP, and needs a route and an address"));
  }
  StreamClient client(std::move(socket), program, version, std::move(name), limits);
  client.flavor_ = AuthFlavor::kSys;
  client.credential_ = std::move(body);
  return client;
}

absl::Status StreamClient::TooLong() const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ": the path is too long for the call"));
}

absl::Status StreamClient::Garbage() const {
  return absl::DataLossError(absl::StrCat(name_, ": the reply cannot be decoded"));
}

absl::StatusOr<absl::Span<const uint8_t>> StreamClient::CallEncoded(
    uint32_t procedure, absl::Span<const uint8_t> arguments) {
  CallHeader call{.xid = ++xid_,
                  .program = binding_.program,
                  .version = binding_.version,
                  .procedure = procedure};
  call.credential = {.flavor = flavor_, .body = credential_};
  std::vector<uint8_t> message(CallHeaderBytes(call));
  EmitCall(call, absl::MakeSpan(message));
  message.insert(message.end(), arguments.begin(), arguments.end());
  auto record = ExchangeRecord(
      socket_.get(), message, limits_.max_reply_bytes,
      std::chrono::steady_clock::now() + std::chrono::seconds(limits_.timeout_s), name_);
  if (!record.ok()) return record.status();
  record_ = *std::move(record);
  ReplyHeader reply;
  const size_t header = ParseReply(record_, &reply);
  if (header == 0 || reply.xid != call.xid) return Garbage();
  const absl::Status status = StatusOf(reply, binding_, procedure);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(name_, ": ", status.message()));
  }
  return absl::MakeConstSpan(record_).subspan(header);
}

}  // namespace pollux::oncrpc
