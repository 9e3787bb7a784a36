// The credential of AUTH_SYS: the caller's identity as its host states it. Source: RFC 5531
// appendix A.
#ifndef POLLUX_ONCRPC_AUTH_SYS_H_
#define POLLUX_ONCRPC_AUTH_SYS_H_

#include <cstdint>

#include "oncrpc/codec.h"

namespace pollux::oncrpc {

inline constexpr uint32_t kMaxMachineName = 255;  // bytes
inline constexpr uint32_t kMaxAuthSysGids = 16;

// The body of a credential of flavor AuthFlavor::kSys. It is not verified.
struct AuthSys {
  uint32_t stamp = 0;  // arbitrary
  BoundedString<kMaxMachineName> machinename;
  uint32_t uid = 0;
  uint32_t gid = 0;
  BoundedArray<uint32_t, kMaxAuthSysGids> gids;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.stamp, self.machinename, self.uid, self.gid, self.gids);
  }
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_AUTH_SYS_H_
