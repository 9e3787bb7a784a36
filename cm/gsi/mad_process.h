// Divides the MADs of an interface among the processes that share it, each of which receives all of
// them.
#ifndef POLLUX_CM_GSI_MAD_PROCESS_H_
#define POLLUX_CM_GSI_MAD_PROCESS_H_

#include <cstdint>
#include <span>

#include "stack/kernel/interface_claims.h"

namespace pollux::cm {

// Whether this process handles the MAD: a REQ or SIDR_REQ if it has claimed the service ID, another
// CM message if it has assigned the receiver's ID in it (Shard::ProcessOf()). One process handles
// what no process has claimed, so that it is answered once. A REJ without a receiver's ID is for
// every process, since it is not answered. Makes system calls only in the process that handles
// unclaimed messages, and in the others every InterfaceClaims::kAnswersRetryNs, to find out whether
// that process has ended.
bool IsForThisProcess(std::span<const uint8_t> mad, kernel::InterfaceClaims& claims,
                      uint64_t now_ns);

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_MAD_PROCESS_H_
