#include "oncrpc/rpcbind.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oncrpc/record_exchange.h"
#include "oncrpc/reply_status.h"
#include "oncrpc/stream_socket.h"
#include "oncrpc/universal_address.h"
#include "oncrpc/xdr.h"
#include "stack/base/address.h"
#include "stack/base/random.h"

namespace pollux::oncrpc {
namespace {

// RFC 1833 section 2.1
constexpr uint32_t kRpcbindProgram = 100000, kRpcbindVersion = 3;
constexpr uint32_t kSet = 1, kUnset = 2, kDump = 4;
// The RFC leaves these without a bound.
constexpr uint32_t kMaxString = 256;    // bytes
constexpr size_t kMaxArguments = 1024;  // bytes: three of those, and some

absl::Status Unreachable(absl::string_view name, absl::string_view hint) {
  return absl::UnavailableError(absl::StrCat(name, ": ", strerror(errno), hint));
}

// RFC 5665 section 5.1 has those of TCP and UDP.
std::string NetidOf(RpcBind::Transport transport, const Gid& address) {
  switch (transport) {
    case RpcBind::Transport::kRdma:
      break;
    case RpcBind::Transport::kTcp:
      return address.IsIpv4() ? "tcp" : "tcp6";
    case RpcBind::Transport::kUdp:
      return address.IsIpv4() ? "udp" : "udp6";
  }
  return Netid(address);
}

}  // namespace

RpcBind::RpcBind(int fd, std::string name)
    : fd_(fd), name_(std::move(name)), xid_(Random(Random::SystemSeed()).Next32()) {}

RpcBind::~RpcBind() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<RpcBind> RpcBind::Local(const std::string& socket) {
  const std::string name = absl::StrCat("the rpcbind of this host, ", socket);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("'", socket, "' is too long for a socket"));
  }
  socket.copy(address.sun_path, socket.size());
  const int fd = ConnectStream(reinterpret_cast<const sockaddr*>(&address), sizeof address,
                               kTimeoutSeconds, SourcePort::kAny);
  if (fd < 0) return Unreachable(name, "; is rpcbind installed and running?");
  return RpcBind(fd, name);
}

absl::StatusOr<RpcBind> RpcBind::At(const Gid& host, uint16_t port) {
  const std::string name =
      absl::StrCat("the rpcbind of ", FormatAddress(host), ", TCP port ", port);
  const int fd = ConnectTcp({.address = host, .port = port}, kTimeoutSeconds, SourcePort::kAny);
  if (fd < 0) {
    return Unreachable(name, "; this host's kernel asks it, by a route and an address of its own");
  }
  return RpcBind(fd, name);
}

absl::StatusOr<absl::Span<const uint8_t>> RpcBind::Call(uint32_t procedure, const char* what,
                                                        absl::Span<const uint8_t> arguments) {
  const CallHeader call{.xid = ++xid_,
                        .program = kRpcbindProgram,
                        .version = kRpcbindVersion,
                        .procedure = procedure};
  std::vector<uint8_t> message(CallHeaderBytes(call));
  EmitCall(call, absl::MakeSpan(message));
  message.insert(message.end(), arguments.begin(), arguments.end());
  const std::string name = absl::StrCat(name_, ", ", what);
  auto reply = ExchangeRecord(
      fd_, message, kMaxReply,
      std::chrono::steady_clock::now() + std::chrono::seconds(kTimeoutSeconds), name);
  if (!reply.ok()) return absl::UnavailableError(reply.status().message());
  reply_ = *std::move(reply);
  ReplyHeader header;
  const size_t begin = ParseReply(reply_, &header);
  if (begin == 0 || header.xid != call.xid) {
    return absl::UnavailableError(absl::StrCat(name, ": the answer is none"));
  }
  const absl::Status status =
      StatusOf(header, {.program = kRpcbindProgram, .version = kRpcbindVersion, .procedures = {}},
               procedure);
  if (!status.ok()) return absl::UnavailableError(absl::StrCat(name, ": ", status.message()));
  return absl::MakeConstSpan(reply_).subspan(begin);
}

absl::StatusOr<bool> RpcBind::Change(uint32_t procedure, uint32_t program, uint32_t version,
                                     const std::string& netid, const std::string& address) {
  std::vector<uint8_t> space(kMaxArguments);
  XdrWriter arguments(absl::MakeSpan(space));
  arguments.Uint32(program);
  arguments.Uint32(version);
  arguments.String(netid);
  arguments.String(address);
  arguments.String(std::to_string(getuid()));
  const auto results = Call(procedure, procedure == kSet ? "SET" : "UNSET", arguments.bytes());
  if (!results.ok()) return results.status();
  return XdrReader(*results).Bool();
}

absl::Status RpcBind::Register(uint32_t program, uint32_t version, const SocketAddress& at,
                               Transport transport) {
  const std::string netid = NetidOf(transport, at.address);
  const auto removed = Change(kUnset, program, version, netid, "");
  if (!removed.ok()) return removed.status();
  const auto set = Change(kSet, program, version, netid, UniversalAddress(at));
  if (!set.ok()) return set.status();
  if (!*set) {
    return absl::PermissionDeniedError(absl::StrCat(name_, " does not register program ", program,
                                                    " version ", version, " for netid ", netid,
                                                    ": another user has, or none may"));
  }
  return absl::OkStatus();
}

absl::Status RpcBind::Unregister(uint32_t program, uint32_t version, const Gid& address,
                                 Transport transport) {
  const std::string netid = NetidOf(transport, address);
  const auto removed = Change(kUnset, program, version, netid, "");
  if (!removed.ok()) return removed.status();
  if (!*removed) {
    return absl::NotFoundError(absl::StrCat(name_, " has no registration of ours of program ",
                                            program, " version ", version));
  }
  return absl::OkStatus();
}

absl::StatusOr<SocketAddress> RpcBind::Find(uint32_t program, uint32_t version, const Gid& host,
                                            Transport transport) {
  const std::string netid = NetidOf(transport, host);
  const auto results = Call(kDump, "DUMP", {});
  if (!results.ok()) return results.status();
  absl::StatusOr<SocketAddress> found = absl::NotFoundError(
      absl::StrCat(name_, " knows of no program ", program, " version ", version, " by ", netid));
  // Each entry takes bytes of the reply, which are so many at most.
  for (XdrReader list(*results); list.Bool();) {
    const uint32_t mapped_program = list.Uint32(), mapped_version = list.Uint32();
    const std::string_view mapped_netid = list.String(kMaxString);
    const std::string_view address = list.String(kMaxString);
    list.String(kMaxString);  // whose it is
    if (!list.ok() || mapped_program != program || mapped_version != version ||
        mapped_netid != netid) {
      continue;
    }
    found = ParseUniversalAddress({address.data(), address.size()});
    break;
  }
  if (found.ok() && (found->address.IsZero() || found->address == Gid::FromIpv4(0))) {
    found->address = host;
  }
  return found;
}

}  // namespace pollux::oncrpc
