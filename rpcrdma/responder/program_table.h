// The programs of a server, by number and version.
#ifndef POLLUX_RPCRDMA_RESPONDER_PROGRAM_TABLE_H_
#define POLLUX_RPCRDMA_RESPONDER_PROGRAM_TABLE_H_

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "rpcrdma/responder/program.h"

namespace pollux::rpcrdma {

class ProgramTable {
 public:
  // AlreadyExists for a program and version that is registered; InvalidArgument for an invalid
  // binding or one that does not cover a handler.
  absl::Status Add(Program program);

  struct Found {
    oncrpc::AcceptStatus status = oncrpc::AcceptStatus::kSuccess;
    uint32_t low = 0;  // the registered versions, for kProgramMismatch
    uint32_t high = 0;
    const oncrpc::ProcedureBinding* binding = nullptr;
    Handler* handler = nullptr;
  };
  Found Find(uint32_t program, uint32_t version, uint32_t procedure);

 private:
  std::deque<Program> programs_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_PROGRAM_TABLE_H_
