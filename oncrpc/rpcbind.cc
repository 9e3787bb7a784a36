#include "oncrpc/rpcbind.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oncrpc/portmap.h"
#include "oncrpc/stream_socket.h"
#include "oncrpc/universal_address.h"
#include "oncrpc/xdr.h"
#include "stack/base/address.h"

namespace pollux::oncrpc {
namespace {

constexpr uint32_t kSet = static_cast<uint32_t>(PortmapProcedure::kSet);
constexpr uint32_t kUnset = static_cast<uint32_t>(PortmapProcedure::kUnset);
constexpr uint32_t kDump = static_cast<uint32_t>(PortmapProcedure::kDump);
constexpr size_t kMaxArguments = 1024;  // bytes: three strings of kMaxRpcbString, and some

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

RpcBind::RpcBind(Fd socket, std::string name)
    : name_(std::move(name)),
      client_(std::move(socket), kPortmapProgram, kRpcbindV3, name_,
              {.timeout_s = kTimeoutSeconds, .max_reply_bytes = kMaxReply}) {}

absl::StatusOr<RpcBind> RpcBind::Local(const std::string& socket) {
  const std::string name = absl::StrCat("the rpcbind of this host, ", socket);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", socket, "' is too long for the path of a socket"));
  }
  socket.copy(address.sun_path, socket.size());
  Fd connected(ConnectStream(reinterpret_cast<const sockaddr*>(&address), sizeof address,
                             kTimeoutSeconds, SourcePort::kAny));
  if (!connected.ok()) return Unreachable(name, "; is rpcbind installed and running?");
  return RpcBind(std::move(connected), name);
}

absl::StatusOr<RpcBind> RpcBind::At(const Gid& host, uint16_t port) {
  const std::string name =
      absl::StrCat("the rpcbind of ", FormatAddress(host), ", TCP port ", port);
  Fd connected(ConnectTcp({.address = host, .port = port}, kTimeoutSeconds, SourcePort::kAny));
  if (!connected.ok()) {
    return Unreachable(name,
                       "; this host's kernel connects to it, and needs a route and an address");
  }
  return RpcBind(std::move(connected), name);
}

absl::StatusOr<absl::Span<const uint8_t>> RpcBind::Call(uint32_t procedure, const char* what,
                                                        absl::Span<const uint8_t> arguments) {
  auto results = client_.CallEncoded(procedure, arguments);
  if (results.ok()) return results;
  return absl::UnavailableError(absl::StrCat(results.status().message(), " (", what, ")"));
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
    return absl::PermissionDeniedError(absl::StrCat(
        name_, " does not register program ", program, " version ", version, " for netid ", netid,
        ": another user has registered it, or registering is not allowed"));
  }
  return absl::OkStatus();
}

absl::Status RpcBind::Unregister(uint32_t program, uint32_t version, const Gid& address,
                                 Transport transport) {
  const std::string netid = NetidOf(transport, address);
  const auto removed = Change(kUnset, program, version, netid, "");
  if (!removed.ok()) return removed.status();
  if (!*removed) {
    return absl::NotFoundError(absl::StrCat(name_, " has no registration of program ", program,
                                            " version ", version, " that this user can remove"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SocketAddress> RpcBind::Find(uint32_t program, uint32_t version, const Gid& host,
                                            Transport transport) {
  const std::string netid = NetidOf(transport, host);
  const auto results = Call(kDump, "DUMP", {});
  if (!results.ok()) return results.status();
  absl::StatusOr<SocketAddress> found =
      absl::NotFoundError(absl::StrCat(name_, " has no registration of program ", program,
                                       " version ", version, " for netid ", netid));
  // Each entry takes bytes of the reply, which are so many at most.
  for (XdrReader list(*results); list.Bool();) {
    const uint32_t mapped_program = list.Uint32(), mapped_version = list.Uint32();
    const std::string_view mapped_netid = list.String(kMaxRpcbString);
    const std::string_view address = list.String(kMaxRpcbString);
    list.String(kMaxRpcbString);  // whose it is
    if (!list.ok() || mapped_program != program || mapped_version != version ||
        mapped_netid != netid) {
      continue;
    }
    found = ParseUniversalAddress({address.data(), address.size()});
    // Not InvalidArgument: the address comes from rpcbind, not from the caller.
    if (!found.ok()) {
      found = absl::UnavailableError(absl::StrCat(name_, ": ", found.status().message()));
    }
    break;
  }
  if (found.ok() && (found->address.IsZero() || found->address == Gid::FromIpv4(0))) {
    found->address = host;
  }
  return found;
}

// Linux connects to this host if the address is zero.
bool RpcBind::IsServedByTcp(const SocketAddress& at) {
  return Fd(ConnectTcp(at, kTimeoutSeconds, SourcePort::kAny)).ok();
}

}  // namespace pollux::oncrpc
