// The results of a call that fails before its arguments are decoded.
#ifndef POLLUX_NFS_PROCEDURES_FAILED_RESULTS_H_
#define POLLUX_NFS_PROCEDURES_FAILED_RESULTS_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "nfs/v3/binding.h"
#include "nfs/v3/status.h"

namespace pollux::nfs {

using FailedResultsSpace = std::array<uint8_t, 20>;

// Encodes the status, which must not be kOk, and the procedure's absent attributes as XDR in
// `space`. For any procedure except NULL. RFC 1813 section 3.3
absl::Span<const uint8_t> EncodeFailedResults(Procedure procedure, Nfsstat3 status,
                                              FailedResultsSpace* space);

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_PROCEDURES_FAILED_RESULTS_H_
