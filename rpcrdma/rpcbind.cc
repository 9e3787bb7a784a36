#include "rpcrdma/rpcbind.h"

#include <rpc/rpc.h>
// After rpc.h, which it leans on.
#include <rpc/rpcb_prot.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpcrdma/stream_socket.h"
#include "rpcrdma/universal_address.h"
#include "stack/net/address.h"

namespace pollux::rpcrdma {
namespace {

constexpr timeval kTimeout = {.tv_sec = RpcBind::kTimeoutSeconds, .tv_usec = 0};

// xdr_void() has no arguments, so that it is no xdrproc_t.
bool_t NoArguments(XDR*, void*) { return TRUE; }

CLIENT* AsClient(void* client) { return static_cast<CLIENT*>(client); }

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

void RpcBind::Closer::operator()(void* client) const { clnt_destroy(AsClient(client)); }

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
  return Over(fd, name);
}

absl::StatusOr<RpcBind> RpcBind::At(const Gid& host, uint16_t port) {
  const std::string name =
      absl::StrCat("the rpcbind of ", net::FormatAddress(host), ", TCP port ", port);
  const int fd = ConnectTcp({.address = host, .port = port}, kTimeoutSeconds, SourcePort::kAny);
  if (fd < 0) {
    return Unreachable(name, "; this host's kernel asks it, by a route and an address of its own");
  }
  return Over(fd, name);
}

absl::StatusOr<RpcBind> RpcBind::Over(int fd, std::string name) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length);
  netbuf address = {.maxlen = sizeof peer, .len = length, .buf = &peer};
  CLIENT* client = clnt_vc_create(fd, &address, RPCBPROG, RPCBVERS, 0, 0);
  if (client == nullptr) {
    close(fd);
    return absl::UnavailableError(absl::StrCat(name, ": ", clnt_spcreateerror("libtirpc")));
  }
  clnt_control(client, CLSET_FD_CLOSE, nullptr);
  timeval timeout = kTimeout;
  clnt_control(client, CLSET_TIMEOUT, reinterpret_cast<char*>(&timeout));
  return RpcBind(client, std::move(name));
}

absl::Status RpcBind::Failure(absl::string_view procedure) const {
  return absl::UnavailableError(absl::StrCat(
      name_, ": ", clnt_sperror(AsClient(client_.get()), std::string(procedure).c_str())));
}

absl::StatusOr<bool> RpcBind::Change(uint32_t procedure, uint32_t program, uint32_t version,
                                     const std::string& netid, const std::string& address) {
  std::string owner = std::to_string(getuid());
  rpcb mapping{.r_prog = program,
               .r_vers = version,
               .r_netid = const_cast<char*>(netid.c_str()),
               .r_addr = const_cast<char*>(address.c_str()),
               .r_owner = owner.data()};
  bool_t answer = FALSE;
  const clnt_stat status =
      clnt_call(AsClient(client_.get()), procedure, reinterpret_cast<xdrproc_t>(xdr_rpcb),
                reinterpret_cast<char*>(&mapping), reinterpret_cast<xdrproc_t>(xdr_bool),
                reinterpret_cast<char*>(&answer), kTimeout);
  if (status != RPC_SUCCESS) return Failure(procedure == RPCBPROC_SET ? "SET" : "UNSET");
  return answer == TRUE;
}

absl::Status RpcBind::Register(uint32_t program, uint32_t version, const cm::Endpoint& at,
                               Transport transport) {
  const std::string netid = NetidOf(transport, at.address);
  const auto removed = Change(RPCBPROC_UNSET, program, version, netid, "");
  if (!removed.ok()) return removed.status();
  const auto set = Change(RPCBPROC_SET, program, version, netid, UniversalAddress(at));
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
  const auto removed = Change(RPCBPROC_UNSET, program, version, netid, "");
  if (!removed.ok()) return removed.status();
  if (!*removed) {
    return absl::NotFoundError(absl::StrCat(name_, " has no registration of ours of program ",
                                            program, " version ", version));
  }
  return absl::OkStatus();
}

absl::StatusOr<cm::Endpoint> RpcBind::Find(uint32_t program, uint32_t version, const Gid& host,
                                           Transport transport) {
  const std::string netid = NetidOf(transport, host);
  rpcblist_ptr list = nullptr;
  const clnt_stat status = clnt_call(
      AsClient(client_.get()), RPCBPROC_DUMP, reinterpret_cast<xdrproc_t>(NoArguments), nullptr,
      reinterpret_cast<xdrproc_t>(xdr_rpcblist_ptr), reinterpret_cast<char*>(&list), kTimeout);
  if (status != RPC_SUCCESS) return Failure("DUMP");
  absl::StatusOr<cm::Endpoint> found = absl::NotFoundError(
      absl::StrCat(name_, " knows of no program ", program, " version ", version, " by ", netid));
  for (const rpcblist* entry = list; entry != nullptr; entry = entry->rpcb_next) {
    const rpcb& mapping = entry->rpcb_map;
    if (mapping.r_prog != program || mapping.r_vers != version || netid != mapping.r_netid)
      continue;
    found = ParseUniversalAddress(mapping.r_addr);
    break;
  }
  xdr_free(reinterpret_cast<xdrproc_t>(xdr_rpcblist_ptr), reinterpret_cast<char*>(&list));
  if (found.ok() && (found->address.IsZero() || found->address == Gid::FromIpv4(0))) {
    found->address = host;
  }
  return found;
}

}  // namespace pollux::rpcrdma
