// What an NFS server did, by procedure. One per server.
#ifndef POLLUX_NFS_SERVER_COUNTERS_H_
#define POLLUX_NFS_SERVER_COUNTERS_H_

#include <array>
#include <cstdint>

#include "nfs/v3/binding.h"
#include "stack/base/stats.h"

namespace pollux::nfs {

struct Counters {
  struct OfProcedure {
    uint64_t calls = 0;     // answered
    uint64_t failures = 0;  // among them: with another status than NFS3_OK, or none
  };
  std::array<OfProcedure, kProcedures> procedures;
  uint64_t bytes_read = 0;  // from files
  // Of those read: given to the connection while more was read, which drops what is for a client
  // that has gone.
  uint64_t bytes_ahead = 0;
  uint64_t bytes_written = 0;  // to files
  uint64_t waited = 0;         // calls that waited for others of their export
  uint64_t put_off = 0;        // calls that were told to come again (NFS3ERR_JUKEBOX) for that
  uint64_t acl_calls = 0;      // of NFS_ACL, which is not served: one a mount of Linux's client

  OfProcedure& Of(Procedure procedure) { return procedures[static_cast<uint32_t>(procedure)]; }
  // "calls/getattr", "failures/getattr", ..., then the others by their names.
  void Collect(Stats* stats) const;
  uint64_t calls() const;
};

// Makes them the topic "nfs" of this process's telemetry.
void OfferTopic();

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_COUNTERS_H_
