#include "stack/kernel/interface_claims.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <functional>

#include "absl/strings/str_cat.h"

namespace pollux::kernel {
namespace {

constexpr uint8_t kQpnBits = 24;
constexpr uint8_t kPartBits = 16;  // of the numbers of one part
// So many adjacent parts, as one worker asks for by default, are filled before others are begun.
constexpr uint32_t kGroup = 16;
// Indices 0, 1 and all ones are not used (WorkerConfig::max_queue_pairs).
constexpr uint32_t kUnusedIndices = 3;

absl::StatusOr<QpnLayout> LayoutFor(uint32_t workers, uint32_t queue_pairs) {
  const int worker_bits = std::bit_width(workers - 1);
  // At least one part.
  const int index_bits = std::max<int>(std::bit_width(queue_pairs + kUnusedIndices - 1),
                                       kPartBits - InterfaceClaims::kGenerationBits - worker_bits);
  const int process_bits = kQpnBits - worker_bits - InterfaceClaims::kGenerationBits - index_bits;
  if (process_bits < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(workers, " workers with ", queue_pairs,
                     " queue pairs each: queue pair numbers have only 24 bits, of which ",
                     InterfaceClaims::kGenerationBits, " are random"));
  }
  return QpnLayout{.worker_bits = static_cast<uint8_t>(worker_bits),
                   .index_bits = static_cast<uint8_t>(index_bits),
                   .process_bits = static_cast<uint8_t>(process_bits)};
}

using PartSet = std::bitset<InterfaceClaims::kParts>;

bool IsAnyTaken(const PartSet& taken, uint32_t first, uint32_t count) {
  for (uint32_t part = first; part < first + count; ++part) {
    if (taken[part]) return true;
  }
  return false;
}

// The size of the largest free block around a free one.
uint32_t LargestFreeBlock(const PartSet& taken, uint32_t first, uint32_t parts) {
  while (parts < InterfaceClaims::kParts &&
         !IsAnyTaken(taken, first / (2 * parts) * (2 * parts), 2 * parts)) {
    parts *= 2;
  }
  return parts;
}

// Returns the first part of each free block of `parts` parts, in the order in which to try them:
// those that leave the largest blocks free come first, and within kGroup parts the order is random.
// A process that is started again then has other numbers than the one before, to which packets may
// still be on their way.
std::vector<uint32_t> FreeBlocks(const PartSet& taken, uint32_t parts, Random* random) {
  const uint32_t blocks = InterfaceClaims::kParts / parts;
  const auto start = static_cast<uint32_t>(random->Below(blocks));
  std::vector<uint32_t> firsts;
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t first = (start + i) % blocks * parts;
    if (!IsAnyTaken(taken, first, parts)) firsts.push_back(first);
  }
  std::ranges::stable_sort(firsts, std::less<>(), [&taken, parts](uint32_t first) {
    return std::max(kGroup, LargestFreeBlock(taken, first, parts));
  });
  return firsts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InterfaceClaims>> InterfaceClaims::Join(uint32_t interface_index,
                                                                       uint32_t workers,
                                                                       uint32_t queue_pairs,
                                                                       Random* random) {
  const absl::StatusOr<QpnLayout> layout = LayoutFor(workers, queue_pairs);
  if (!layout.ok()) return layout.status();
  std::unique_ptr<InterfaceClaims> claims(new InterfaceClaims(interface_index, *layout));
  const uint32_t parts = kParts >> layout->process_bits;
  const PartSet taken = claims->TakenParts();
  for (const uint32_t first : FreeBlocks(taken, parts, random)) {
    const absl::Status status = claims->ClaimParts(first, parts);
    if (status.ok()) {
      claims->layout_.process = first / parts;
      claims->first_part_ = static_cast<uint8_t>(first);
      claims->AnswersUnclaimed(0);
      return claims;
    }
    // Another process was faster.
    if (!absl::IsAlreadyExists(status)) return status;
  }
  // Without a descriptor, IsTaken() is true for every name.
  const absl::Status any = NameClaim::Take(claims->NameOfPart(0)).status();
  if (!any.ok() && !absl::IsAlreadyExists(any)) return any;
  return absl::ResourceExhaustedError(absl::StrCat(
      "no ", parts, " adjacent parts of the ", kParts, " of its queue pair numbers are free (",
      taken.count(), " belong to other programs on it): ", queue_pairs, " queue pairs on ", workers,
      " workers need as many; give a smaller --queue-pairs, or end a program"));
}

std::bitset<InterfaceClaims::kParts> InterfaceClaims::TakenParts() const {
  std::bitset<kParts> taken;
  for (uint32_t part = 0; part < kParts; ++part) taken[part] = NameClaim::IsTaken(NameOfPart(part));
  return taken;
}

std::string InterfaceClaims::NameOfPart(uint32_t part) const {
  return absl::StrCat(interface_index_, "/qpn/", part);
}

std::string InterfaceClaims::NameOfService(uint64_t service_id) const {
  return absl::StrCat(interface_index_, "/service/", absl::Hex(service_id));
}

std::string InterfaceClaims::NameOfHold(uint64_t service_id) const {
  return absl::StrCat(NameOfService(service_id), "/held");
}

absl::Status InterfaceClaims::ClaimParts(uint32_t first, uint32_t count) {
  for (uint32_t part = first; part < first + count; ++part) {
    absl::StatusOr<NameClaim> claim = NameClaim::Take(NameOfPart(part));
    if (!claim.ok()) {
      parts_.clear();
      return claim.status();
    }
    parts_.push_back(*std::move(claim));
  }
  return absl::OkStatus();
}

bool InterfaceClaims::HasProcessId(uint8_t process_id) const {
  // Perhaps of a process that had this part before.
  return process_id >= first_part_ && process_id < first_part_ + parts_.size();
}

bool InterfaceClaims::AnyHasProcessId(uint8_t process_id) const {
  return HasProcessId(process_id) || NameClaim::IsTaken(NameOfPart(process_id));
}

absl::Status InterfaceClaims::Claim(Services& services, uint64_t service_id,
                                    const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto it = services.find(service_id); it != services.end()) {
    ++it->second.uses;
    return absl::OkStatus();
  }
  absl::StatusOr<NameClaim> claim = NameClaim::Take(name);
  if (!claim.ok()) return claim.status();
  services.emplace(service_id, Service{.claim = *std::move(claim), .uses = 1});
  return absl::OkStatus();
}

void InterfaceClaims::Release(Services& services, uint64_t service_id) {
  const std::lock_guard lock(mutex_);
  const auto it = services.find(service_id);
  if (it != services.end() && --it->second.uses == 0) services.erase(it);
}

absl::Status InterfaceClaims::ClaimService(uint64_t service_id) {
  return Claim(services_, service_id, NameOfService(service_id));
}

void InterfaceClaims::ReleaseService(uint64_t service_id) { Release(services_, service_id); }

absl::Status InterfaceClaims::HoldService(uint64_t service_id) {
  return Claim(held_, service_id, NameOfHold(service_id));
}

void InterfaceClaims::ReleaseHold(uint64_t service_id) { Release(held_, service_id); }

bool InterfaceClaims::HasService(uint64_t service_id) const {
  const std::lock_guard lock(mutex_);
  return services_.contains(service_id);
}

bool InterfaceClaims::TakesService(uint64_t service_id) const {
  {
    const std::lock_guard lock(mutex_);
    if (services_.contains(service_id)) return true;
    if (!held_.contains(service_id)) return false;
  }
  return !NameClaim::IsTaken(NameOfService(service_id));
}

bool InterfaceClaims::OtherTakesService(uint64_t service_id) const {
  return !TakesService(service_id) && (NameClaim::IsTaken(NameOfService(service_id)) ||
                                       NameClaim::IsTaken(NameOfHold(service_id)));
}

bool InterfaceClaims::AnswersUnclaimed(uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (answers_ || now_ns < next_try_ns_) return answers_.has_value();
  next_try_ns_ = now_ns + kAnswersRetryNs;
  absl::StatusOr<NameClaim> claim = NameClaim::Take(absl::StrCat(interface_index_, "/answers"));
  if (claim.ok()) answers_.emplace(*std::move(claim));
  return answers_.has_value();
}

}  // namespace pollux::kernel
