// How a call travels: inline, in chunks or as a Long Message, by the sizes that the binding, the
// caller and the connection state.
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
  bool write_chunks = false;
  bool reply_chunk = false;
  uint32_t read_chunks = 0;  // a bit for each item
  bool long_call = false;    // the whole Payload stream in a position-zero Read chunk

  bool has_chunks() const { return write_chunks || reply_chunk || read_chunks != 0 || long_call; }
};

// What a plan depends on beside the call.
struct CallTerms {
  const oncrpc::ProgramBinding* binding = nullptr;
  // Bytes of a message that holds a call, and of one that holds a reply.
  uint32_t call_threshold = kMinInlineBytes;
  uint32_t reply_threshold = kMinInlineBytes;
  size_t call_header_bytes = 0;  // the RPC header with its credential
  bool chunks = true;            // calls may have some
  bool may_reduce = true;        // see ForbidsReduction()
};

// InvalidArgument for what the binding does not allow, when the reply can be larger than a message
// and the reply buffer, and when it takes chunks where there are none.
absl::StatusOr<CallPlan> PlanCall(const oncrpc::CallRequest& request, const CallTerms& terms);

// The calls that never have chunks, whatever their arguments are, planned once for all calls under
// the same terms.
class PlainCalls {
 public:
  void Reset(const CallTerms& terms);
  // True: PlanCall() has a plan without chunks. False says nothing.
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
