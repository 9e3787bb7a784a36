#include "cm/connection/multicast.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace pollux::cm {

absl::Status Multicast::CheckJoin(const CmConnection& connection, const Gid& group) const {
  const Gid& local = connection.local().address;
  if (connection.port_space() != RDMA_PS_UDP || connection.binding == QpBinding::kMoving ||
      !context_.environment->GidIndex(local)) {
    return absl::FailedPreconditionError(
        "join: only an identifier of RDMA_PS_UDP with a local address can join, and not while its "
        "queue pair is being bound");
  }
  if (!group.IsMulticast() || group.IsIpv4() != local.IsIpv4()) {
    return absl::InvalidArgumentError(
        "join: not a multicast address, or not of the local address's IP version");
  }
  if (std::ranges::find(connection.groups, group, &CmConnection::Group::gid) !=
      connection.groups.end()) {
    return absl::AlreadyExistsError("join: the identifier has joined this group already");
  }
  if (connection.groups.size() == kMaxGroupsOfId) {
    return absl::ResourceExhaustedError(
        absl::StrCat("join: the identifier is in ", kMaxGroupsOfId, " groups already"));
  }
  return absl::OkStatus();
}

absl::Status Multicast::Join(CmConnection& connection, const Gid& group) {
  if (absl::Status status = CheckJoin(connection, group); !status.ok()) return status;
  const Gid& local = connection.local().address;
  if (absl::Status status = context_.environment->JoinGroup(local, group); !status.ok())
    return status;
  connection.groups.push_back({group});
  if (connection.binding != QpBinding::kReady) {
    DeferJoined(connection, group);
    return absl::OkStatus();
  }
  context_.environment->AttachGroup(connection.qp_owner(), connection.qp(), group, true,
                                    connection.lease,
                                    [this, alive = context_.alive, lease = connection.lease,
                                     &connection, group](const absl::Status& status) {
                                      if (!*alive || !lease->valid) return;
                                      OnJoined(connection, group, status);
                                    });
  return absl::OkStatus();
}

void Multicast::OnQpReleased(const CmConnection& connection) {
  for (const CmConnection::Group& group : connection.groups) {
    if (!group.joined) DeferJoined(connection, group.gid);
  }
}

void Multicast::DeferJoined(const CmConnection& connection, const Gid& group) {
  parts_.events.Defer(connection,
                      [this, group](CmConnection& one) { OnJoined(one, group, absl::OkStatus()); });
}

void Multicast::OnJoined(CmConnection& connection, const Gid& group, const absl::Status& status) {
  const auto found = std::ranges::find(connection.groups, group, &CmConnection::Group::gid);
  // Left, or joined anew, before the queue pair's owner had heard of it.
  if (found == connection.groups.end() || found->joined) return;
  UdParam ud;
  ud.ah_attr.is_global = 1;
  ud.ah_attr.port_num = 1;
  ud.ah_attr.grh.hop_limit = connection.hop_limit;
  ud.ah_attr.grh.traffic_class = connection.traffic_class;
  ud.ah_attr.grh.sgid_index =
      context_.environment->GidIndex(connection.local().address).value_or(0);
  std::ranges::copy(group.raw, ud.ah_attr.grh.dgid.raw);
  ud.qp_num = kMulticastQpn.value;
  ud.qkey = RDMA_UDP_QKEY;
  found->joined = status.ok();
  if (!status.ok()) {
    connection.groups.erase(found);
    context_.environment->LeaveGroup(connection.local().address, group);
    return parts_.events.Deliver(connection,
                                 {.type = RDMA_CM_EVENT_MULTICAST_ERROR,
                                  .status = absl::IsResourceExhausted(status) ? -ENOMEM : -EINVAL,
                                  .ud = ud});
  }
  parts_.events.Deliver(connection, {.type = RDMA_CM_EVENT_MULTICAST_JOIN, .ud = ud});
}

absl::Status Multicast::Leave(CmConnection& connection, const Gid& group) {
  if (std::erase_if(connection.groups, [&](const auto& one) { return one.gid == group; }) == 0) {
    return absl::NotFoundError("leave: the identifier has not joined this group");
  }
  context_.environment->LeaveGroup(connection.local().address, group);
  // Its queue pair may have been released, and has left all groups when it is destroyed.
  if (connection.binding != QpBinding::kReady) return absl::OkStatus();
  context_.environment->AttachGroup(connection.qp_owner(), connection.qp(), group, false,
                                    connection.lease, [](const absl::Status&) {});
  return absl::OkStatus();
}

void Multicast::LeaveAll(CmConnection& connection) {
  for (const CmConnection::Group& group : connection.groups) {
    context_.environment->LeaveGroup(connection.local().address, group.gid);
  }
  connection.groups.clear();
}

}  // namespace pollux::cm
