// The programs of a server, by number and version.
#ifndef POLLUX_RPCRDMA_RESPONDER_PROGRAM_TABLE_H_
#define POLLUX_RPCRDMA_RESPONDER_PROGRAM_TABLE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "oncrpc/binding.h"
#include "rpcrdma/responder/program.h"

namespace pollux::rpcrdma {

class ProgramTable {
 public:
  // AlreadyExists for a program and version that is registered; InvalidArgument for an invalid
  // binding or one that does not cover a handler.
  absl::Status Add(Program program);

  // The handler of a procedure and its binding.
  struct Target {
    const oncrpc::ProcedureBinding* binding = nullptr;
    Handler* handler = nullptr;  // null: there is no such procedure
  };
  Target Find(uint32_t program, uint32_t version, uint32_t procedure) {
    for (const auto& entry : programs_) {
      if (entry->program.binding.program != program || entry->program.binding.version != version) {
        continue;
      }
      return procedure < entry->targets.size() ? entry->targets[procedure]
                                               : TargetOf(entry->program, procedure);
    }
    return {};
  }
  // Why Find() returned no handler.
  struct Reason {
    oncrpc::AcceptStatus status = oncrpc::AcceptStatus::kProgramUnavailable;
    uint32_t low = 0;  // the registered versions, for kProgramMismatch
    uint32_t high = 0;
  };
  Reason WhyNot(uint32_t program, uint32_t version) const;

 private:
  struct Entry {
    Program program;
    // By number, for procedures below kMaxProcedures; nearly all are.
    std::array<Target, oncrpc::kMaxProcedures> targets;
  };
  static Target TargetOf(Program& program, uint32_t procedure);

  std::vector<std::unique_ptr<Entry>> programs_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_PROGRAM_TABLE_H_
