// Decides how a call is sent: inline, in chunks or as a Long Message. This depends on the sizes
// given by the binding, the caller and the connection.
#ifndef POLLUX_RPCRDMA_REQUESTER_CALL_PLAN_H_
#define POLLUX_RPCRDMA_REQUESTER_CALL_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "oncrpc/binding.h"
#include "oncrpc/call.h"
#include "rpcrdma/wire/private_data.h"

namespace pollux::rpcrdma {

struct CallPlan {
  uint32_t read_chunks = 0;  // one bit for each item
  bool write_chunks = false;
  bool reply_chunk = false;
  bool long_call = false;  // the whole Payload stream in a position-zero Read chunk

  bool has_chunks() const { return write_chunks || reply_chunk || read_chunks != 0 || long_call; }
};

// The properties besides the call itself on which a plan depends.
struct CallTerms {
  const oncrpc::ProgramBinding* binding = nullptr;
  // The maximum sizes of a message with a call and of one with a reply, in bytes.
  uint32_t call_threshold = kMinInlineBytes;
  uint32_t reply_threshold = kMinInlineBytes;
  size_t call_header_bytes = 0;  // the RPC header with its credential
  bool chunks = true;            // calls may have chunks
  bool may_reduce = true;        // see ForbidsReduction()
};

// InvalidArgument if the binding does not allow the call, if the reply may exceed both a message
// and the reply buffer, or if the call needs chunks and may not have them.
absl::StatusOr<CallPlan> PlanCall(const oncrpc::CallRequest& request, const CallTerms& terms);

// The calls that need no chunks whatever their arguments are; determined once for all calls under
// the same terms.
class PlainCalls {
 public:
  void Reset(const CallTerms& terms);
  // True: PlanCall() would return a plan without chunks. False: PlanCall() must decide.
  bool Include(const oncrpc::CallRequest& request) const {
    if (request.header != nullptr || !request.items.empty() || !request.item_buffers.empty() ||
        request.max_result_bytes.has_value() || request.arguments.size() % 4 != 0) {
      return false;
    }
    for (const Procedure& procedure : procedures_) {
      if (procedure.number != request.procedure) continue;
      return request.arguments.size() <= procedure.most_argument_bytes;
    }
    return false;
  }

 private:
  struct Procedure {
    uint32_t number = 0;
    size_t most_argument_bytes = 0;
  };
  std::vector<Procedure> procedures_;  // at most kMaxProcedures
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_REQUESTER_CALL_PLAN_H_
