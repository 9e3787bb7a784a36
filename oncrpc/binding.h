// Upper-layer bindings: what a program tells the transport about its procedures. A program without
// one is neither served nor called. Source: RFC 8166 section 6.
#ifndef POLLUX_ONCRPC_BINDING_H_
#define POLLUX_ONCRPC_BINDING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pollux::oncrpc {

inline constexpr uint32_t kMaxProcedures = 64;  // of one program
inline constexpr uint32_t kMaxItems = 8;        // DDP-eligible arguments, or results, of one call
inline constexpr uint32_t kMaxItemBytes = 1u << 30;  // of one DDP-eligible item

// One procedure. Sizes are bytes of XDR, without RPC headers, in the worst case. An item is
// variable-length opaque data; its length word stays in the stream (RFC 8166 section 3.4.4.1).
struct ProcedureBinding {
  uint32_t number = 0;
  uint32_t max_argument_bytes = 0;           // arguments, without the eligible items' bytes
  uint32_t max_eligible_argument_bytes = 0;  // of each; 0: no argument is DDP-eligible
  uint32_t max_result_bytes = 0;             // results, without the eligible items' bytes
  uint32_t max_eligible_result_bytes = 0;    // of each; 0: no result is DDP-eligible
  uint32_t max_eligible_arguments = 1;       // in one call, at most kMaxItems
  uint32_t max_eligible_results = 1;
  // Running it twice does no more than running it once. What is not goes through the server's reply
  // cache: a call that is sent again is answered with the reply that it had.
  bool idempotent = false;
  // Of what is idempotent: a copy that runs late would undo what came after the reply to another
  // one (a WRITE). A call that is sent again while it still runs joins it; once it is done, nothing
  // is remembered.
  bool joins = false;
};

struct ProgramBinding {
  uint32_t program = 0;
  uint32_t version = 0;
  std::vector<ProcedureBinding> procedures;
  // What holds for every procedure that is not listed, where the program's are not known one by
  // one. Its number means nothing.
  std::optional<ProcedureBinding> others;

  // Null when the program has no such procedure.
  const ProcedureBinding* Find(uint32_t procedure) const {
    for (const ProcedureBinding& binding : procedures) {
      if (binding.number == procedure) return &binding;
    }
    return others.has_value() ? &*others : nullptr;
  }
  // InvalidArgument: no procedures or too many, one twice, sizes that are no multiple of four or
  // past the bounds.
  absl::Status Validate() const;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_BINDING_H_
