// Upper-layer bindings: what the transport must know about a program's procedures. A program
// without a binding can be neither served nor called. Source: RFC 8166 section 6.
#ifndef POLLUX_ONCRPC_BINDING_H_
#define POLLUX_ONCRPC_BINDING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pollux::oncrpc {

inline constexpr uint32_t kMaxProcedures = 64;  // per program
inline constexpr uint32_t kMaxItems = 8;  // DDP-eligible arguments per call, and results per call
inline constexpr uint32_t kMaxItemBytes = 1u << 30;  // per DDP-eligible item

// One procedure. Sizes are maximum bytes of XDR, without RPC headers. An item is variable-length
// opaque data; its length word stays in the stream (RFC 8166 section 3.4.4.1).
struct ProcedureBinding {
  uint32_t number = 0;
  uint32_t max_argument_bytes = 0;           // arguments without the bytes of eligible items
  uint32_t max_eligible_argument_bytes = 0;  // per item; 0: no argument is DDP-eligible
  uint32_t max_result_bytes = 0;             // results without the bytes of eligible items
  uint32_t max_eligible_result_bytes = 0;    // per item; 0: no result is DDP-eligible
  uint32_t max_eligible_arguments = 1;       // per call, at most kMaxItems
  uint32_t max_eligible_results = 1;
  // Whether running a call twice has the same effect as running it once. Calls of other procedures
  // use the server's reply cache: a repeated call gets the first reply again.
  bool idempotent = false;
  // For an idempotent procedure whose late duplicate could undo a later call (WRITE): a repeated
  // call that arrives while the first still runs waits for its reply. Nothing is remembered after
  // that.
  bool joins = false;

  bool operator==(const ProcedureBinding&) const = default;
};

struct ProgramBinding {
  uint32_t program = 0;
  uint32_t version = 0;
  std::vector<ProcedureBinding> procedures;
  // Applies to every procedure that is not listed, for programs whose procedures are not known one
  // by one. Its `number` is ignored.
  std::optional<ProcedureBinding> others;

  // Returns null if the program has no such procedure.
  const ProcedureBinding* Find(uint32_t procedure) const {
    for (const ProcedureBinding& binding : procedures) {
      if (binding.number == procedure) return &binding;
    }
    return others.has_value() ? &*others : nullptr;
  }
  // Returns InvalidArgument for no or too many procedures, a procedure listed twice, or sizes that
  // are not a multiple of four or exceed the limits.
  absl::Status Validate() const;

  bool operator==(const ProgramBinding&) const = default;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_BINDING_H_
