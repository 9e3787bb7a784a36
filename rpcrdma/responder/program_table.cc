#include "rpcrdma/responder/program_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::rpcrdma {

absl::Status ProgramTable::Add(Program program) {
  if (absl::Status status = program.binding.Validate(); !status.ok()) return status;
  for (const auto& other : programs_) {
    if (other->program.binding.program == program.binding.program &&
        other->program.binding.version == program.binding.version) {
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
  auto entry = std::make_unique<Entry>();
  entry->program = std::move(program);
  for (uint32_t i = 0; i < entry->targets.size(); ++i) {
    entry->targets[i] = TargetOf(entry->program, i);
  }
  programs_.push_back(std::move(entry));
  return absl::OkStatus();
}

ProgramTable::Target ProgramTable::TargetOf(Program& program, uint32_t procedure) {
  const oncrpc::ProcedureBinding* const binding = program.binding.Find(procedure);
  for (Procedure& entry : program.procedures) {
    if (entry.number == procedure) return {.binding = binding, .handler = &entry.handler};
  }
  if (!program.others) return {};
  return {.binding = binding, .handler = &program.others};
}

ProgramTable::Reason ProgramTable::WhyNot(uint32_t program, uint32_t version) const {
  Reason reason;
  for (const auto& entry : programs_) {
    const oncrpc::ProgramBinding& binding = entry->program.binding;
    if (binding.program != program) continue;
    if (binding.version == version) {
      return {.status = oncrpc::AcceptStatus::kProcedureUnavailable};
    }
    const bool first = reason.status == oncrpc::AcceptStatus::kProgramUnavailable;
    reason = {.status = oncrpc::AcceptStatus::kProgramMismatch,
              .low = first ? binding.version : std::min(reason.low, binding.version),
              .high = std::max(reason.high, binding.version)};
  }
  return reason;
}

}  // namespace pollux::rpcrdma
