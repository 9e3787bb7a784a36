#include "oncrpc/binding.h"

#include "absl/strings/str_format.h"

namespace pollux::oncrpc {
namespace {

absl::Status CheckSizes(uint32_t program, const ProcedureBinding& binding) {
  if (binding.max_argument_bytes % 4 != 0 || binding.max_result_bytes % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "program %#x, procedure %d: XDR sizes must be multiples of 4", program, binding.number));
  }
  for (uint32_t items : {binding.max_eligible_arguments, binding.max_eligible_results}) {
    if (items > kMaxItems) {
      return absl::InvalidArgumentError(
          absl::StrFormat("program %#x, procedure %d: %d eligible items; at most %d are allowed",
                          program, binding.number, items, kMaxItems));
    }
  }
  for (uint32_t bytes : {binding.max_argument_bytes, binding.max_eligible_argument_bytes,
                         binding.max_result_bytes, binding.max_eligible_result_bytes}) {
    if (bytes > kMaxItemBytes) {
      return absl::InvalidArgumentError(
          absl::StrFormat("program %#x, procedure %d: %d bytes; at most %d are allowed", program,
                          binding.number, bytes, kMaxItemBytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProgramBinding::Validate() const {
  if ((procedures.empty() && !others.has_value()) || procedures.size() > kMaxProcedures) {
    return absl::InvalidArgumentError(
        absl::StrFormat("program %#x: a binding must state 1 to %d procedures, this one states %d",
                        program, kMaxProcedures, procedures.size()));
  }
  for (const ProcedureBinding& binding : procedures) {
    if (Find(binding.number) != &binding) {
      return absl::InvalidArgumentError(
          absl::StrFormat("program %#x: procedure %d is bound twice", program, binding.number));
    }
    if (absl::Status status = CheckSizes(program, binding); !status.ok()) return status;
  }
  return others.has_value() ? CheckSizes(program, *others) : absl::OkStatus();
}

}  // namespace pollux::oncrpc
