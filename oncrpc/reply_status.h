// The status of a call, from the header of its reply.
#ifndef POLLUX_ONCRPC_REPLY_STATUS_H_
#define POLLUX_ONCRPC_REPLY_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "oncrpc/binding.h"
#include "oncrpc/rpc_message.h"

namespace pollux::oncrpc {

// The status is the one that CallDone documents.
absl::Status StatusOf(const ReplyHeader& reply, const ProgramBinding& binding, uint32_t procedure);

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_REPLY_STATUS_H_
