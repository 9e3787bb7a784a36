// What a call that fails before anybody looks at its arguments is answered with.
#ifndef POLLUX_NFS_PROCEDURES_FAILED_RESULTS_H_
#define POLLUX_NFS_PROCEDURES_FAILED_RESULTS_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "nfs/v3/binding.h"
#include "nfs/v3/status.h"

namespace pollux::nfs {

using FailedResultsSpace = std::array<uint8_t, 20>;

// XDR in `space`: the status, which is not kOk, and what the procedure says of its objects then:
// that there are no attributes. Any procedure but NULL. RFC 1813 section 3.3
absl::Span<const uint8_t> EncodeFailedResults(Procedure procedure, Nfsstat3 status,
                                              FailedResultsSpace* space);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_FAILED_RESULTS_H_
