// NSM version 1, in which hosts that lock each other's files report their restarts. Source: The
// Open Group's XNFS (C702) chapter 11.
#ifndef POLLUX_NFS_LOCK_NSM_H_
#define POLLUX_NFS_LOCK_NSM_H_

#include <cstdint>

#include "oncrpc/codec.h"

namespace pollux::nfs {

inline constexpr uint32_t kNsmProgram = 100024;
inline constexpr uint32_t kNsmV1 = 1;
inline constexpr uint32_t kSmMaxstrlen = 1024;  // bytes

// Only procedures between hosts. The others are between a host's lock manager and its own status
// monitor.
enum class NsmProcedure : uint32_t {
  kNull = 0,
  kNotify = 6,
};

// SM_NOTIFY
struct StatChge {
  oncrpc::BoundedString<kSmMaxstrlen> mon_name;  // the host that has restarted
  uint32_t state = 0;                            // odd: up; changes at each start
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.mon_name, self.state);
  }
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_NSM_H_
