// Messages of the portmapper (version 2) and rpcbind (versions 3 and 4), by which clients find the
// address of a program. Source: RFC 1833 sections 2 and 3.
#ifndef POLLUX_ONCRPC_PORTMAP_H_
#define POLLUX_ONCRPC_PORTMAP_H_

#include <cstdint>

#include "oncrpc/codec.h"

namespace pollux::oncrpc {

inline constexpr uint32_t kPortmapProgram = 100000;
inline constexpr uint32_t kPortmapV2 = 2;
inline constexpr uint32_t kRpcbindV3 = 3;
inline constexpr uint32_t kRpcbindV4 = 4;
inline constexpr uint16_t kPortmapPort = 111;
// The RFC sets no limit on these.
inline constexpr uint32_t kMaxRpcbString = 256;    // bytes
inline constexpr uint32_t kMaxRpcbMappings = 256;  // per host

// The procedures with the same number in all versions.
enum class PortmapProcedure : uint32_t {
  kNull = 0,
  kSet = 1,
  kUnset = 2,
  kGetport = 3,  // from version 3 on: GETADDR
  kDump = 4,
};

struct Mapping {
  uint32_t prog = 0;
  uint32_t vers = 0;
  uint32_t prot = 0;  // IPPROTO_TCP, IPPROTO_UDP
  uint32_t port = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.prog, self.vers, self.prot, self.port);
  }
};
using Pmaplist = LinkedList<Mapping, kMaxRpcbMappings>;
struct GetportRes {
  uint32_t port = 0;  // 0: not registered
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.port);
  }
};

struct Rpcb {
  uint32_t r_prog = 0;
  uint32_t r_vers = 0;
  BoundedString<kMaxRpcbString> r_netid;
  BoundedString<kMaxRpcbString> r_addr;  // a universal address
  BoundedString<kMaxRpcbString> r_owner;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.r_prog, self.r_vers, self.r_netid, self.r_addr, self.r_owner);
  }
};
using Rpcblist = LinkedList<Rpcb, kMaxRpcbMappings>;
struct GetaddrRes {
  BoundedString<kMaxRpcbString> address;  // empty: not registered
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.address);
  }
};

// The result of SET and UNSET.
struct SetRes {
  bool done = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.done);
  }
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_PORTMAP_H_
