// An NFS server's counters, by procedure. One per server.
#ifndef POLLUX_NFS_SERVER_COUNTERS_H_
#define POLLUX_NFS_SERVER_COUNTERS_H_

#include <array>
#include <cstdint>

#include "nfs/v3/binding.h"
#include "stack/base/stats.h"

namespace pollux::nfs {

struct Counters {
  struct OfProcedure {
    uint64_t calls = 0;     // answered calls
    uint64_t failures = 0;  // of these, with a status other than NFS3_OK or without one
  };
  std::array<OfProcedure, kProcedures> procedures;
  uint64_t bytes_read = 0;  // from files
  // Of these, bytes passed to the connection while more was being read. The connection drops them
  // if the client is gone.
  uint64_t bytes_ahead = 0;
  uint64_t bytes_written = 0;  // to files
  uint64_t waited = 0;         // calls that waited for other calls to their export
  // calls answered by NFS3ERR_JUKEBOX (try again later), because they waited too long or their
  // export stalls
  uint64_t put_off = 0;
  // calls to NFS_ACL, which is not served; Linux clients make one per mount
  uint64_t acl_calls = 0;

  OfProcedure& Of(Procedure procedure) { return procedures[static_cast<uint32_t>(procedure)]; }
  // "calls/getattr", "failures/getattr", ..., then the others with their names.
  void Collect(Stats* stats) const;
  uint64_t calls() const;
};

// Adds the topic "nfs" to the telemetry of this process.
void OfferTopic();

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_COUNTERS_H_
