#include "cm/connection/address_resolution.h"

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace pollux::cm {

absl::Status AddressResolution::Bind(CmConnection& connection, const SocketAddress& local,
                                     PortTable::Use use) {
  if (local.address != Gid{} && !context_.environment->GidIndex(local.address)) {
    return absl::NotFoundError(absl::StrCat("bind: ", ToString(local),
                                            " is not at an address of this device; all zeros "
                                            "stand for any"));
  }
  PortTable& ports = context_.table.ports();
  const absl::Status status =
      local.port != 0
          ? ports.Bind(connection, local)
          : ports.BindEphemeral(connection, local.address, context_.environment->random(), use);
  if (status.ok()) return status;
  if (absl::IsAlreadyExists(status)) {
    return absl::AlreadyExistsError(
        absl::StrCat("bind: ", ToString(local), " is in use; choose another port"));
  }
  return absl::Status(status.code(), absl::StrCat("bind: ", status.message()));
}

absl::Status AddressResolution::BindAddr(CmConnection& connection, const SocketAddress& local) {
  if (connection.state != State::kIdle || connection.has_port) {
    return absl::FailedPreconditionError("bind: the identifier has an address already");
  }
  return Bind(connection, local);
}

absl::Status AddressResolution::SetReuseAddress(CmConnection& connection, bool reuse) {
  if (connection.state == State::kListen || (!reuse && connection.has_port)) {
    return absl::FailedPreconditionError(
        "reuse address: set it before the identifier listens, clear it before the identifier is "
        "bound");
  }
  connection.reuses_address = reuse;
  return absl::OkStatus();
}

absl::Status AddressResolution::SetIpv6Only(CmConnection& connection, bool only) {
  if (connection.state != State::kIdle) {
    return absl::FailedPreconditionError(
        "IPv6 only: set it before the identifier listens or connects");
  }
  if (context_.table.ports().SetIpv6Only(connection, only)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("IPv6 only: another identifier has ",
                                               ToString(connection.local()),
                                               "; set it before the identifier is bound"));
}

Path AddressResolution::QueryPath(const CmConnection& connection) const {
  const bool agreed = connection.remote_qpn != 0;
  return {.mtu = agreed ? connection.path_mtu : context_.environment->active_mtu(),
          .traffic_class = connection.traffic_class,
          .hop_limit = connection.hop_limit,
          .packet_lifetime = context_.config.packet_lifetime};
}

absl::Status AddressResolution::Listen(CmConnection& connection, uint16_t port, uint32_t backlog,
                                       Placement placement) {
  if (connection.state != State::kIdle) {
    return absl::FailedPreconditionError("listen: the identifier is in use already");
  }
  if (!connection.has_port) {
    if (absl::Status status = Bind(connection, {Gid{}, port}); !status.ok()) return status;
  } else if (port != 0 && port != connection.local().port) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen: port ", port, ", but bound to port ", connection.local().port));
  }
  if (const absl::Status status = context_.table.ports().Claim(connection); !status.ok()) {
    if (!absl::IsAlreadyExists(status)) return status;
    return absl::AlreadyExistsError(
        absl::StrCat("listen: ", ToString(connection.local()), " is in use by another program"));
  }
  if (connection.reuses_address && !context_.table.ports().IsAlone(connection)) {
    return absl::AlreadyExistsError(absl::StrCat("listen: another identifier is bound to ",
                                                 ToString(connection.local()), " too"));
  }
  connection.reuses_address = false;
  connection.backlog = backlog != 0 ? backlog : context_.config.max_pending_requests;
  connection.placement = placement;
  connection.state = State::kListen;
  return absl::OkStatus();
}

absl::Status AddressResolution::ResolveAddr(CmConnection& connection,
                                            const SocketAddress& destination, uint32_t timeout_ms) {
  if (connection.state != State::kIdle) {
    return absl::FailedPreconditionError(
        "resolve address: the identifier is resolved, listening or connected already");
  }
  std::optional<Gid> source = context_.environment->SourceFor(destination.address);
  if (connection.has_port && connection.local().address != Gid{}) {
    source = connection.local().address;
  }
  if (!source || source->IsIpv4() != destination.address.IsIpv4()) {
    return absl::NotFoundError(absl::StrCat("resolve address: this device has no address to reach ",
                                            ToString(destination), " from"));
  }
  if (absl::Status status = context_.environment->StartResolve(*source, destination.address);
      !status.ok()) {
    return status;
  }
  if (!connection.has_port) {
    absl::Status status = Bind(connection, {}, PortTable::Use::kConnects);
    if (!status.ok()) return status;
  } else if (connection.local().port >= PortTable::kFirstEphemeral) {
    // Nothing will be addressed to it. A claim costs a descriptor.
    context_.table.ports().ReleaseClaim(connection);
  }
  connection.bound_address = std::exchange(connection.mutable_local().address, *source);
  connection.mutable_peer() = destination;
  connection.state = State::kResolving;
  context_.ArmTimer(connection, uint64_t{timeout_ms} * 1'000'000);
  resolving_.push_back(connection.local_comm_id);
  context_.environment->Wake();
  return absl::OkStatus();
}

absl::Status AddressResolution::SetTypeOfService(CmConnection& connection,
                                                 uint8_t type_of_service) {
  switch (connection.state) {
    case State::kIdle:
    case State::kResolving:
    case State::kAddressResolved:
    case State::kRouteResolved:
      connection.traffic_class = type_of_service;
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("type of service: set it before connecting");
  }
}

bool AddressResolution::Poll() {
  bool busy = false;
  for (size_t i = 0; i < resolving_.size();) {
    CmConnection* connection = context_.table.Find(resolving_[i]);
    const bool waits = connection != nullptr && connection->state == State::kResolving;
    if (waits && !context_.environment->IsResolved(connection->local().address,
                                                   connection->peer().address)) {
      ++i;
      continue;
    }
    resolving_.erase(resolving_.begin() + static_cast<ptrdiff_t>(i));
    busy = true;
    if (!waits) continue;
    connection->timer.Cancel();
    Resolved(*connection);
  }
  return busy;
}

void AddressResolution::Resolved(CmConnection& connection) {
  connection.state = State::kAddressResolved;
  parts_.events.Deliver(connection, RDMA_CM_EVENT_ADDR_RESOLVED);
}

void AddressResolution::OnTimeout(CmConnection& connection) {
  // After a long pause the timer may fire in the same poll that has received the answer.
  if (context_.environment->IsResolved(connection.local().address, connection.peer().address)) {
    return Resolved(connection);
  }
  connection.state = State::kIdle;
  // Another destination may need another source, as with Linux.
  connection.mutable_local().address = connection.bound_address;
  parts_.events.Deliver(connection, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
}

absl::Status AddressResolution::ResolveRoute(CmConnection& connection) {
  if (connection.state != State::kAddressResolved) {
    return absl::FailedPreconditionError("resolve route: resolve the address first");
  }
  connection.state = State::kRouteResolved;
  parts_.events.Defer(connection, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return absl::OkStatus();
}

}  // namespace pollux::cm
