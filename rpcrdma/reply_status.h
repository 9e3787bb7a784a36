// What an RPC reply's header means to whoever made the call.
#ifndef POLLUX_RPCRDMA_REPLY_STATUS_H_
#define POLLUX_RPCRDMA_REPLY_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "rpcrdma/binding.h"
#include "rpcrdma/rpc_message.h"

namespace pollux::rpcrdma {

// As CallDone states it.
absl::Status StatusOf(const ReplyHeader& reply, const ProgramBinding& binding, uint32_t procedure);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_REPLY_STATUS_H_
