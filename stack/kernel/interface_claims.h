// What each of the processes that share an interface of the kernel has of it: queue pair numbers,
// CM's communication IDs and services.
#ifndef POLLUX_STACK_KERNEL_INTERFACE_CLAIMS_H_
#define POLLUX_STACK_KERNEL_INTERFACE_CLAIMS_H_

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/base/qpn_layout.h"
#include "stack/base/random.h"
#include "stack/kernel/name_claim.h"

namespace pollux::kernel {

// The processes need no common parent, user or service: a claim is a NameClaim, in the interface's
// network namespace. Thread-safe; makes system calls, so it is not for the packet path.
class InterfaceClaims {
 public:
  // The queue pair numbers are divided into this many parts, of 65,536 numbers each.
  static constexpr uint32_t kParts = 256;
  // Random bits of each number, so that packets to a destroyed queue pair miss its successor.
  static constexpr uint8_t kGenerationBits = 6;
  // How often a process tries to be the one that answers what no process has claimed.
  static constexpr uint64_t kAnswersRetryNs = 100'000'000;

  // Claims queue pair numbers for `workers` workers (rounded up to a power of two) with up to
  // `queue_pairs` queue pairs each, as one aligned block of parts. Of the free blocks that leave
  // the largest blocks to other processes, it takes one at random. `interface_index`: the kernel's.
  // ResourceExhausted if no such block is free; InvalidArgument if 24 bits cannot hold as many.
  static absl::StatusOr<std::unique_ptr<InterfaceClaims>> Join(uint32_t interface_index,
                                                               uint32_t workers,
                                                               uint32_t queue_pairs,
                                                               Random* random);
  InterfaceClaims(const InterfaceClaims&) = delete;
  InterfaceClaims& operator=(const InterfaceClaims&) = delete;

  // Of every queue pair number of this process.
  const QpnLayout& qpn_layout() const { return layout_; }
  // The first of its parts, which identifies the process: no other process on the interface has
  // it. The upper 8 bits of its communication IDs.
  uint8_t process_id() const { return first_part_; }
  bool HasProcessId(uint8_t process_id) const;
  // Whether any process has it.
  bool AnyHasProcessId(uint8_t process_id) const;

  // Claims a service ID, in host byte order; may be repeated. Each claim wants one
  // ReleaseService(). AlreadyExists if another process has it.
  absl::Status ClaimService(uint64_t service_id);
  void ReleaseService(uint64_t service_id);
  bool HasService(uint64_t service_id) const;
  // Keeps the process that answers unclaimed messages from rejecting requests for the service,
  // until ReleaseHold(). Other processes can claim it; requests are theirs then. AlreadyExists if
  // another process holds it.
  absl::Status HoldService(uint64_t service_id);
  void ReleaseHold(uint64_t service_id);
  // Whether requests for the service are this process's: it has claimed it, or holds it while no
  // other process has claimed it.
  bool TakesService(uint64_t service_id) const;
  // Whether requests for the service are another process's.
  bool OtherTakesService(uint64_t service_id) const;

  // Whether this process is the one that answers messages for IDs and services that no process has
  // claimed. If no process answers them, this one tries to every kAnswersRetryNs.
  bool AnswersUnclaimed(uint64_t now_ns);

 private:
  InterfaceClaims(uint32_t interface_index, const QpnLayout& layout)
      : interface_index_(interface_index), layout_(layout) {}
  std::bitset<kParts> TakenParts() const;  // by any process
  // Claims all parts of the block, or none.
  absl::Status ClaimParts(uint32_t first, uint32_t count);
  std::string NameOfPart(uint32_t part) const;
  std::string NameOfService(uint64_t service_id) const;
  std::string NameOfHold(uint64_t service_id) const;

  const uint32_t interface_index_;
  QpnLayout layout_;
  uint8_t first_part_ = 0;
  std::vector<NameClaim> parts_;
  mutable std::mutex mutex_;  // of what follows
  struct Service {
    NameClaim claim;
    uint32_t uses;
  };
  using Services = std::map<uint64_t, Service>;
  absl::Status Claim(Services& services, uint64_t service_id, const std::string& name);
  void Release(Services& services, uint64_t service_id);

  Services services_;
  Services held_;
  std::optional<NameClaim> answers_;
  uint64_t next_try_ns_ = 0;
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_INTERFACE_CLAIMS_H_
