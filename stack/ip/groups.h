// The multicast groups that an interface has joined, and what it tells routers and switches of
// them: IGMP version 3 (RFC 3376) and MLD version 2 (RFC 3810).
#ifndef POLLUX_STACK_IP_GROUPS_H_
#define POLLUX_STACK_IP_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "stack/ip/host_state.h"
#include "stack/wire/igmp.h"

namespace pollux::ip {

class Groups {
 public:
  static constexpr size_t kMaxGroups = 256;  // applications' and those of own IPv6 addresses
  static constexpr int kRobustness = 2;      // times that a change is told (RFC 3376 section 8.1)
  static constexpr uint64_t kRepeatNs = 1'000'000'000;  // at most so long between them (8.11)
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // `host` is not owned and outlives this. `reports`: whether to say so on the wire; where the
  // kernel keeps the interface, it does.
  Groups(HostState* host, bool reports) : host_(host), reports_(reports) {}

  // Counts: each Join() asks for one Leave(). InvalidArgument for what is no group;
  // ResourceExhausted; NotFound for Leave() of what was not joined.
  absl::Status Join(const Gid& group, uint16_t vlan, transport::PollContext& context);
  absl::Status Leave(const Gid& group, uint16_t vlan, transport::PollContext& context);
  bool Contains(const Gid& group, uint16_t vlan) const;

  // A query that came on `vlan`, well-formed and from the link.
  void OnQuery(const wire::MembershipQuery& query, uint16_t vlan, transport::PollContext& context);

  uint64_t deadline_ns() const { return next_deadline_ns_; }
  void OnDeadline(transport::PollContext& context);

 private:
  struct Membership {
    Gid group;
    uint16_t vlan = kNoVlan;
    uint32_t references = 0;  // 0: left, and to be told once more
    int changes_left = 0;     // times that joining or leaving is still to be told
    uint64_t change_ns = kNever;
    uint64_t answer_ns = kNever;  // when a query is to be answered
  };

  Membership* Find(const Gid& group, uint16_t vlan);
  void TellChange(Membership& membership, transport::PollContext& context);
  void Report(wire::GroupRecord record, const Membership& membership,
              transport::PollContext& context);
  void Arm(uint64_t at_ns);

  HostState* host_;
  bool reports_;
  std::vector<Membership> memberships_;
  uint64_t next_deadline_ns_ = kNever;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_GROUPS_H_
