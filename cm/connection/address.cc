// Local addresses and ports, listeners, and the way to a peer.
#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/connection/manager_impl.h"

namespace pollux::cm {

absl::Status ManagerImpl::Bind(Connection& connection, const SocketAddress& local) {
  if (local.address != Gid{} && !environment_->GidIndex(local.address)) {
    return absl::NotFoundError(absl::StrCat("bind: ", ToString(local),
                                            " is at no address of this device; all zeros stand "
                                            "for any"));
  }
  if (local.port != 0) {
    if (table_.ports().Bind(connection, local)) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("bind: ", ToString(local), " is in use; choose another port"));
  }
  if (table_.ports().BindEphemeral(connection, local.address, environment_->random())) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError("bind: all ephemeral ports are in use");
}

absl::Status ManagerImpl::BindAddr(Id* id, const SocketAddress& local) {
  Connection& connection = Of(id);
  if (connection.state != State::kIdle || connection.has_port) {
    return absl::FailedPreconditionError("bind: the identifier has an address already");
  }
  return Bind(connection, local);
}

absl::Status ManagerImpl::SetReuseAddress(Id* id, bool reuse) {
  Connection& connection = Of(id);
  if (connection.state == State::kListen || (!reuse && connection.has_port)) {
    return absl::FailedPreconditionError(
        "reuse address: say so before the identifier listens, and take it back before it is bound");
  }
  connection.reuses_address = reuse;
  return absl::OkStatus();
}

absl::Status ManagerImpl::SetIpv6Only(Id* id, bool only) {
  Connection& connection = Of(id);
  if (connection.state != State::kIdle) {
    return absl::FailedPreconditionError(
        "IPv6 only: say so before the identifier listens or connects");
  }
  const bool before = std::exchange(connection.ipv6_only, only);
  if (before == only || !connection.has_port) return absl::OkStatus();
  PortTable& ports = table_.ports();
  const SocketAddress local = connection.local();
  ports.Release(connection);
  if (ports.Bind(connection, local)) return absl::OkStatus();
  connection.ipv6_only = before;
  ports.Bind(connection, local);
  return absl::AlreadyExistsError(absl::StrCat("IPv6 only: another identifier has ",
                                               ToString(local), "; say so before it is bound"));
}

Manager::Path ManagerImpl::QueryPath(const Id& id) const {
  const auto& connection = static_cast<const Connection&>(id);
  const bool agreed = connection.remote_qpn != 0;
  return {.mtu = agreed ? connection.path_mtu : environment_->active_mtu(),
          .traffic_class = connection.traffic_class,
          .hop_limit = connection.hop_limit,
          .packet_lifetime = config_.packet_lifetime};
}

absl::Status ManagerImpl::Listen(Id* id, uint16_t port, uint32_t backlog, Placement placement) {
  Connection& connection = Of(id);
  if (connection.state != State::kIdle) {
    return absl::FailedPreconditionError("listen: the identifier is in use already");
  }
  if (!connection.has_port) {
    if (absl::Status status = Bind(connection, {Gid{}, port}); !status.ok()) return status;
  } else if (port != 0 && port != connection.local().port) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen: port ", port, ", but bound to port ", connection.local().port));
  }
  if (connection.reuses_address && !table_.ports().IsAlone(connection)) {
    return absl::AlreadyExistsError(absl::StrCat("listen: another identifier is bound to ",
                                                 ToString(connection.local()), " too"));
  }
  connection.reuses_address = false;
  connection.backlog = backlog != 0 ? backlog : config_.max_pending_requests;
  connection.placement = placement;
  connection.state = State::kListen;
  return absl::OkStatus();
}

absl::Status ManagerImpl::ResolveAddr(Id* id, const SocketAddress& destination,
                                      uint32_t timeout_ms) {
  Connection& connection = Of(id);
  if (connection.state != State::kIdle) {
    return absl::FailedPreconditionError(
        "resolve address: the identifier is resolved, listening or connected already");
  }
  std::optional<Gid> source = environment_->SourceFor(destination.address);
  if (connection.has_port && connection.local().address != Gid{}) {
    source = connection.local().address;
  }
  if (!source || source->IsIpv4() != destination.address.IsIpv4()) {
    return absl::NotFoundError(absl::StrCat("resolve address: this device has no address to reach ",
                                            ToString(destination), " from"));
  }
  if (absl::Status status = environment_->StartResolve(*source, destination.address);
      !status.ok()) {
    return status;
  }
  if (!connection.has_port) {
    if (absl::Status status = Bind(connection, {}); !status.ok()) return status;
  }
  connection.mutable_local().address = *source;
  connection.mutable_peer() = destination;
  connection.state = State::kResolving;
  environment_->wheel().Arm(connection.timer,
                            environment_->now_ns() + uint64_t{timeout_ms} * 1'000'000);
  resolving_.push_back(connection.local_comm_id);
  return absl::OkStatus();
}

absl::Status ManagerImpl::SetTypeOfService(Id* id, uint8_t type_of_service) {
  Connection& connection = Of(id);
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

absl::Status ManagerImpl::ResolveRoute(Id* id, uint32_t /*timeout_ms*/) {
  Connection& connection = Of(id);
  if (connection.state != State::kAddressResolved) {
    return absl::FailedPreconditionError("resolve route: resolve the address first");
  }
  connection.state = State::kRouteResolved;
  Defer(connection, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return absl::OkStatus();
}

}  // namespace pollux::cm
