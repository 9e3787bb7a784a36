#include "stack/ip/groups.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/mld.h"
#include "stack/wire/multicast.h"

namespace pollux::ip {
namespace {

using transport::PollContext;

constexpr uint64_t kNsPerMs = 1'000'000;

bool IsAbout(const wire::MembershipQuery& query, const Gid& group) {
  if (query.group.IsZero()) return !group.IsIpv4();
  if (query.group == Gid::FromIpv4(0)) return group.IsIpv4();
  return query.group == group;
}

// The group of all hosts (RFC 3376 section 6, RFC 3810 section 6) and, for IPv6, the scopes 0
// (reserved) and 1 (the interface), whose packets do not leave a host.
bool IsNeverReported(const Gid& group) {
  if (group.IsIpv4()) return group == wire::kAllHostsIpv4;
  return group == wire::kAllNodesIpv6 || (group.raw[1] & 0x0F) <= 1;
}

}  // namespace

void PortGroups::Add(const Gid& group, uint16_t vlan) {
  const std::lock_guard lock(mutex_);
  members_.emplace_back(group, vlan);
}

void PortGroups::Remove(const Gid& group, uint16_t vlan) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(members_, std::pair(group, vlan));
  if (found != members_.end()) members_.erase(found);
}

bool PortGroups::HasMembers(const Gid& group, uint16_t vlan) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(members_, std::pair(group, vlan)) != members_.end();
}

Groups::Membership* Groups::Find(const Gid& group, uint16_t vlan) {
  const auto found = std::ranges::find_if(memberships_, [&](const Membership& membership) {
    return membership.group == group && membership.vlan == vlan;
  });
  return found == memberships_.end() ? nullptr : &*found;
}

bool Groups::Contains(const Gid& group, uint16_t vlan) const {
  return std::ranges::any_of(memberships_, [&](const Membership& membership) {
    return membership.group == group && membership.vlan == vlan && membership.references > 0;
  });
}

absl::Status Groups::Join(const Gid& group, uint16_t vlan, PollContext& context) {
  if (!group.IsMulticast()) {
    return absl::InvalidArgumentError(
        absl::StrCat(FormatAddress(group), " is not a multicast group (224.0.0.0/4 or ff00::/8)"));
  }
  Membership* membership = Find(group, vlan);
  if (membership == nullptr) {
    if (memberships_.size() == kMaxGroups) {
      return absl::ResourceExhaustedError(absl::StrCat("joining ", FormatAddress(group), ": all ",
                                                       kMaxGroups, " groups are in use"));
    }
    memberships_.push_back({.group = group, .vlan = vlan});
    membership = &memberships_.back();
  }
  if (++membership->references > 1) return absl::OkStatus();
  port_->Add(group, vlan);
  membership->changes_left = kRobustness;
  TellChange(*membership, context);
  return absl::OkStatus();
}

absl::Status Groups::Leave(const Gid& group, uint16_t vlan, PollContext& context) {
  Membership* membership = Find(group, vlan);
  if (membership == nullptr || membership->references == 0) {
    return absl::NotFoundError(
        absl::StrCat("leaving ", FormatAddress(group), ": this device has not joined it"));
  }
  if (--membership->references > 0) return absl::OkStatus();
  port_->Remove(group, vlan);
  membership->answer_ns = kNever;
  membership->changes_left = kRobustness;
  TellChange(*membership, context);
  return absl::OkStatus();
}

void Groups::ReportAgain(PollContext& context) {
  for (Membership& membership : memberships_) {
    if (membership.references == 0) continue;
    membership.changes_left = kRobustness;
    TellChange(membership, context);
  }
}

void Groups::OnQuery(const wire::MembershipQuery& query, uint16_t vlan, PollContext& context) {
  ++host_->counters.membership_queries_rcvd;
  for (Membership& membership : memberships_) {
    if (membership.vlan != vlan || membership.references == 0) continue;
    if (!IsAbout(query, membership.group)) continue;
    // By chance within the time given, so that the hosts of a link do not answer all at once. One
    // that is under way earlier stays (RFC 3376 section 5.2).
    const uint64_t within_ns = uint64_t{query.max_response_ms} * kNsPerMs;
    const uint64_t at = context.now_ns + context.random.Below(within_ns + 1);
    membership.answer_ns = std::min(membership.answer_ns, at);
    Arm(membership.answer_ns);
  }
}

void Groups::Arm(uint64_t at_ns) {
  next_deadline_ns_ = std::min(next_deadline_ns_, at_ns);
  host_->has_new_deadline = true;
}

void Groups::TellChange(Membership& membership, PollContext& context) {
  if (membership.references > 0) {
    Report(wire::GroupRecord::kJoin, membership, context);
  } else if (!port_->HasMembers(membership.group, membership.vlan)) {
    Report(wire::GroupRecord::kLeave, membership, context);
  }
  --membership.changes_left;
  membership.change_ns =
      membership.changes_left > 0 ? context.now_ns + 1 + context.random.Below(kRepeatNs) : kNever;
  Arm(membership.change_ns);
}

void Groups::OnDeadline(PollContext& context) {
  if (context.now_ns < next_deadline_ns_) return;
  next_deadline_ns_ = kNever;
  for (Membership& membership : memberships_) {
    if (membership.change_ns <= context.now_ns) TellChange(membership, context);
    if (membership.answer_ns <= context.now_ns) {
      membership.answer_ns = kNever;
      Report(wire::GroupRecord::kIsMember, membership, context);
    }
    Arm(std::min(membership.change_ns, membership.answer_ns));
  }
  std::erase_if(memberships_, [](const Membership& membership) {
    return membership.references == 0 && membership.changes_left == 0;
  });
}

void Groups::Report(wire::GroupRecord record, const Membership& membership, PollContext& context) {
  if (!reports_ || IsNeverReported(membership.group)) return;
  const bool ipv4 = membership.group.IsIpv4();
  const Gid& to = ipv4 ? wire::kIgmpv3Routers : wire::kMldv2Routers;
  const size_t bytes = ipv4
                           ? wire::kIpv4RouterAlertBytes + wire::kIgmpv3ReportBytes
                           : wire::kIpv6Bytes + wire::kMldHopByHop.size() + wire::kMldv2ReportBytes;
  const OutFrame frame =
      BeginFrame(*host_, wire::MulticastMac(to), membership.vlan,
                 ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6, bytes, context);
  if (frame.l3 == nullptr) return;
  if (ipv4) {
    const std::optional<Gid> source = host_->routes.Source(to, membership.vlan);
    wire::EmitIpv4RouterAlert({.header_bytes = wire::kIpv4RouterAlertBytes,
                               .total_length = static_cast<uint16_t>(bytes),
                               .ttl = 1,
                               .protocol = wire::kIpProtocolIgmp,
                               .source = source ? source->Ipv4() : 0,
                               .destination = to.Ipv4()},
                              frame.l3);
    wire::EmitIgmpReport(record, membership.group, frame.l3 + wire::kIpv4RouterAlertBytes);
  } else {
    // RFC 3810 section 5.2.13: from a link-local address, or, before there is one, from none.
    std::optional<Gid> source =
        host_->routes.Source(wire::LinkLocalAddress(host_->mac), membership.vlan);
    if (!source || !source->IsLinkLocal()) source = Gid{};
    wire::EmitIpv6({.payload_length = static_cast<uint16_t>(bytes - wire::kIpv6Bytes),
                    .next_header = wire::kIpProtocolHopByHop,
                    .hop_limit = 1,
                    .source = *source,
                    .destination = to},
                   frame.l3);
    uint8_t* options = frame.l3 + wire::kIpv6Bytes;
    std::memcpy(options, wire::kMldHopByHop.data(), wire::kMldHopByHop.size());
    wire::EmitMldReport(record, membership.group, frame.l3, options + wire::kMldHopByHop.size());
  }
  ++host_->counters.membership_reports_sent;
  SendFrame(frame, context);
}

}  // namespace pollux::ip
