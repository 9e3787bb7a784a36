// The multicast groups that an interface has joined, and its reports of them to routers and
// switches: IGMP version 3 (RFC 3376) and MLD version 2 (RFC 3810).
#ifndef POLLUX_STACK_IP_GROUPS_H_
#define POLLUX_STACK_IP_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stack/ip/host_state.h"
#include "stack/wire/igmp.h"

namespace pollux::ip {

// The memberships of all interfaces of one port, so that a leave is reported only when the last
// interface leaves: to routers and switches, they are one host. Thread-safe.
class PortGroups {
 public:
  // Adds one interface to the members of `group` on `vlan`.
  void Add(const Gid& group, uint16_t vlan);
  // Removes one interface that was added.
  void Remove(const Gid& group, uint16_t vlan);
  bool HasMembers(const Gid& group, uint16_t vlan) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<Gid, uint16_t>> members_;  // an element per group and interface
};

class Groups {
 public:
  static constexpr size_t kMaxGroups = 256;             // of applications and of own IPv6 addresses
  static constexpr int kRobustness = 2;                 // reports per change (RFC 3376 section 8.1)
  static constexpr uint64_t kRepeatNs = 1'000'000'000;  // maximum time between them (8.11)
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // `host` is not owned and must outlive this object. `port` has the groups of all interfaces of
  // the port. `reports` is whether to send reports; if the kernel keeps the interface, the kernel
  // does.
  Groups(HostState* host, std::shared_ptr<PortGroups> port, bool reports)
      : host_(host), port_(std::move(port)), reports_(reports) {}

  // Calls are counted: each Join() needs one Leave(). Errors: InvalidArgument (not a multicast
  // group), ResourceExhausted, NotFound (Leave() without Join()).
  absl::Status Join(const Gid& group, uint16_t vlan, transport::PollContext& context);
  absl::Status Leave(const Gid& group, uint16_t vlan, transport::PollContext& context);
  bool Contains(const Gid& group, uint16_t vlan) const;

  // Handles a query received on `vlan`, which must be well-formed and from the link.
  void OnQuery(const wire::MembershipQuery& query, uint16_t vlan, transport::PollContext& context);

  // Reports every group as if it had been joined now.
  void ReportAgain(transport::PollContext& context);

  uint64_t deadline_ns() const { return next_deadline_ns_; }
  void OnDeadline(transport::PollContext& context);

 private:
  struct Membership {
    Gid group;
    uint16_t vlan = kNoVlan;
    uint32_t references = 0;  // 0: left, to be reported once more
    int changes_left = 0;     // reports of joining or leaving still to send
    uint64_t change_ns = kNever;
    uint64_t answer_ns = kNever;  // when to answer a query
  };

  Membership* Find(const Gid& group, uint16_t vlan);
  void TellChange(Membership& membership, transport::PollContext& context);
  void Report(wire::GroupRecord record, const Membership& membership,
              transport::PollContext& context);
  void Arm(uint64_t at_ns);

  HostState* host_;
  std::shared_ptr<PortGroups> port_;
  bool reports_;
  std::vector<Membership> memberships_;
  uint64_t next_deadline_ns_ = kNever;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_GROUPS_H_
