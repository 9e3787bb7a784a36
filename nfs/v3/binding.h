// NFS version 3's binding to RPC-over-RDMA version 1: its procedures, their DDP-eligible items, and
// the maximum sizes of arguments and results. Source: RFC 8267 section 4.
#ifndef POLLUX_NFS_V3_BINDING_H_
#define POLLUX_NFS_V3_BINDING_H_

#include <cstdint>

#include "oncrpc/binding.h"

namespace pollux::nfs {

inline constexpr uint32_t kNfsProgram = 100003;
inline constexpr uint32_t kNfsV3 = 3;
inline constexpr uint32_t kNfsAclProgram = 100227;  // Solaris's; versions 2 and 3
inline constexpr uint32_t kNfsAclV3 = 3;
inline constexpr uint16_t kNfsRdmaPort = 20049;  // IANA: nfsrdma

enum class Procedure : uint32_t {
  kNull = 0,
  kGetattr = 1,
  kSetattr = 2,
  kLookup = 3,
  kAccess = 4,
  kReadlink = 5,
  kRead = 6,
  kWrite = 7,
  kCreate = 8,
  kMkdir = 9,
  kSymlink = 10,
  kMknod = 11,
  kRemove = 12,
  kRmdir = 13,
  kRename = 14,
  kLink = 15,
  kReaddir = 16,
  kReaddirplus = 17,
  kFsstat = 18,
  kFsinfo = 19,
  kPathconf = 20,
  kCommit = 21,
};
inline constexpr uint32_t kProcedures = 22;

oncrpc::ProgramBinding Nfs3Binding();

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_V3_BINDING_H_
