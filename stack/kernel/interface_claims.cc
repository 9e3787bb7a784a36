#include "stack/kernel/interface_claims.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace pollux::kernel {
namespace {

constexpr uint8_t kQpnBits = 24;
constexpr uint8_t kPartBits = 16;  // of the numbers of one part
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

}  // namespace

absl::StatusOr<std::unique_ptr<InterfaceClaims>> InterfaceClaims::Join(uint32_t interface_index,
                                                                       uint32_t workers,
                                                                       uint32_t queue_pairs,
                                                                       Random* random) {
  const absl::StatusOr<QpnLayout> layout = LayoutFor(workers, queue_pairs);
  if (!layout.ok()) return layout.status();
  std::unique_ptr<InterfaceClaims> claims(new InterfaceClaims(interface_index, *layout));
  const uint32_t blocks = 1u << layout->process_bits;
  const uint32_t parts = kParts / blocks;
  // At random: a process that is started again has other numbers than the one before, to which
  // packets may still be on their way.
  const auto start = static_cast<uint32_t>(random->Below(blocks));
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t block = (start + i) % blocks;
    const absl::Status status = claims->ClaimParts(block * parts, parts);
    if (status.ok()) {
      claims->layout_.process = block;
      claims->first_part_ = static_cast<uint8_t>(block * parts);
      return claims;
    }
    if (!absl::IsAlreadyExists(status)) return status;
  }
  uint32_t taken = 0;
  for (uint32_t part = 0; part < kParts; ++part) {
    taken += NameClaim::IsTaken(claims->NameOfPart(part)) ? 1 : 0;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no ", parts, " adjacent parts of the ", kParts, " of its queue pair numbers are free (",
      taken, " belong to other programs on it): ", queue_pairs, " queue pairs on ", workers,
      " workers need as many; give a smaller --queue-pairs, or end a program"));
}

std::string InterfaceClaims::NameOfPart(uint32_t part) const {
  return absl::StrCat("pollux/", interface_index_, "/qpn/", part);
}

std::string InterfaceClaims::NameOfService(uint64_t service_id) const {
  return absl::StrCat("pollux/", interface_index_, "/service/", absl::Hex(service_id));
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

InterfaceClaims::Owner InterfaceClaims::OwnerOfProcessId(uint8_t process_id) const {
  if (process_id >= first_part_ && process_id - first_part_ < parts_.size()) {
    return Owner::kThisProcess;  // perhaps of a process that had this part before
  }
  return NameClaim::IsTaken(NameOfPart(process_id)) ? Owner::kOtherProcess : Owner::kNobody;
}

absl::Status InterfaceClaims::ClaimService(uint64_t service_id) {
  const std::lock_guard lock(mutex_);
  if (const auto it = services_.find(service_id); it != services_.end()) {
    ++it->second.uses;
    return absl::OkStatus();
  }
  absl::StatusOr<NameClaim> claim = NameClaim::Take(NameOfService(service_id));
  if (!claim.ok()) return claim.status();
  services_.emplace(service_id, Service{.claim = *std::move(claim), .uses = 1});
  return absl::OkStatus();
}

void InterfaceClaims::ReleaseService(uint64_t service_id) {
  const std::lock_guard lock(mutex_);
  const auto it = services_.find(service_id);
  if (it != services_.end() && --it->second.uses == 0) services_.erase(it);
}

InterfaceClaims::Owner InterfaceClaims::OwnerOfService(uint64_t service_id) {
  {
    const std::lock_guard lock(mutex_);
    if (services_.contains(service_id)) return Owner::kThisProcess;
  }
  return NameClaim::IsTaken(NameOfService(service_id)) ? Owner::kOtherProcess : Owner::kNobody;
}

bool InterfaceClaims::AnswersForNobody() {
  const std::lock_guard lock(mutex_);
  if (answers_) return true;
  absl::StatusOr<NameClaim> claim =
      NameClaim::Take(absl::StrCat("pollux/", interface_index_, "/answers"));
  if (claim.ok()) answers_.emplace(*std::move(claim));
  return answers_.has_value();
}

void InterfaceClaims::LetGoInChild() {
  for (const NameClaim& part : parts_) close(part.fd());
  for (const auto& [id, service] : services_) close(service.claim.fd());
  if (answers_) close(answers_->fd());
}

}  // namespace pollux::kernel
