#include "rpcrdma/responder/program_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::rpcrdma {

absl::Status ProgramTable::Add(Program program) {
  if (absl::Status status = program.binding.Validate(); !status.ok()) return status;
  for (const Program& other : programs_) {
    if (other.binding.program == program.binding.program &&
        other.binding.version == program.binding.version) {
      return absl::AlreadyExistsError(
          absl::StrFormat("program %#x version %d is registered already", program.binding.program,
                          program.binding.version));
    }
  }
  for (const Procedure& procedure : program.procedures) {
    // RFC 8166 section 6
    if (program.binding.Find(procedure.number) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrFormat("program %#x: procedure %d has a handler but no binding",
                          program.binding.program, procedure.number));
    }
  }
  if (program.others && !program.binding.others.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("program %#x: a handler of all other procedures, but no binding for them",
                        program.binding.program));
  }
  programs_.push_back(std::move(program));
  return absl::OkStatus();
}

ProgramTable::Found ProgramTable::Find(uint32_t program, uint32_t version, uint32_t procedure) {
  Found found{.status = oncrpc::AcceptStatus::kProgramUnavailable};
  for (Program& candidate : programs_) {
    const oncrpc::ProgramBinding& binding = candidate.binding;
    if (binding.program != program) continue;
    found.low = found.status == oncrpc::AcceptStatus::kProgramUnavailable
                    ? binding.version
                    : std::min(found.low, binding.version);
    found.high = std::max(found.high, binding.version);
    found.status = oncrpc::AcceptStatus::kProgramMismatch;
    if (binding.version != version) continue;
    for (Procedure& entry : candidate.procedures) {
      if (entry.number != procedure) continue;
      return {.status = oncrpc::AcceptStatus::kSuccess,
              .binding = binding.Find(procedure),
              .handler = &entry.handler};
    }
    if (!candidate.others) return {.status = oncrpc::AcceptStatus::kProcedureUnavailable};
    return {.status = oncrpc::AcceptStatus::kSuccess,
            .binding = binding.Find(procedure),
            .handler = &candidate.others};
  }
  return found;
}

}  // namespace pollux::rpcrdma
