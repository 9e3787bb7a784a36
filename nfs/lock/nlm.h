// NLM version 4, the lock protocol for files of an NFS server, over TCP. Sources: RFC 1813 section
// 6, and, for structures that it takes from version 3, The Open Group's XNFS (C702) chapter 10.
#ifndef POLLUX_NFS_LOCK_NLM_H_
#define POLLUX_NFS_LOCK_NLM_H_

#include <cstdint>

#include "oncrpc/codec.h"

namespace pollux::nfs {

inline constexpr uint32_t kNlmProgram = 100021;
inline constexpr uint32_t kNlmV4 = 4;
inline constexpr uint32_t kLmMaxstrlen = 1024;  // bytes
inline constexpr uint32_t kMaxNetobj = 1024;    // bytes

enum class NlmProcedure : uint32_t {
  kNull = 0,
  kTest = 1,
  kLock = 2,
  kCancel = 3,
  kUnlock = 4,
  kGranted = 5,  // called by the server on its client
  // The reply is empty; the result comes in a call of the ..._RES procedure.
  kTestMsg = 6,
  kLockMsg = 7,
  kCancelMsg = 8,
  kUnlockMsg = 9,
  kGrantedMsg = 10,
  kTestRes = 11,
  kLockRes = 12,
  kCancelRes = 13,
  kUnlockRes = 14,
  kGrantedRes = 15,
  kShare = 20,
  kUnshare = 21,
  kNmLock = 22,
  kFreeAll = 23,
};

enum class Nlm4Stats : uint32_t {
  kGranted = 0,
  kDenied = 1,
  kDeniedNolocks = 2,
  kBlocked = 3,
  kDeniedGracePeriod = 4,
  kDeadlck = 5,
  kRofs = 6,
  kStaleFh = 7,
  kFbig = 8,
  kFailed = 9,
};
constexpr bool IsValid(Nlm4Stats stat) { return stat <= Nlm4Stats::kFailed; }

// Any bytes. After decoding it points into the stream.
using Netobj = oncrpc::BoundedString<kMaxNetobj>;

struct Nlm4Holder {
  bool exclusive = false;
  uint32_t svid = 0;
  Netobj oh;
  uint64_t l_offset = 0;
  uint64_t l_len = 0;  // 0: to the end of the file
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.exclusive, self.svid, self.oh, self.l_offset, self.l_len);
  }
};

struct Nlm4Lock {
  oncrpc::BoundedString<kLmMaxstrlen> caller_name;
  Netobj fh;
  Netobj oh;
  uint32_t svid = 0;
  uint64_t l_offset = 0;
  uint64_t l_len = 0;  // 0: to the end of the file
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.caller_name, self.fh, self.oh, self.svid, self.l_offset, self.l_len);
  }
};

// LOCK and NM_LOCK
struct Nlm4Lockargs {
  Netobj cookie;
  bool block = false;
  bool exclusive = false;
  Nlm4Lock alock;
  bool reclaim = false;  // the lock was held before the server restarted
  uint32_t state = 0;    // of the client's status monitor; changes at each start
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.block, self.exclusive, self.alock, self.reclaim, self.state);
  }
};

struct Nlm4Cancargs {
  Netobj cookie;
  bool block = false;
  bool exclusive = false;
  Nlm4Lock alock;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.block, self.exclusive, self.alock);
  }
};

// TEST and GRANTED
struct Nlm4Testargs {
  Netobj cookie;
  bool exclusive = false;
  Nlm4Lock alock;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.exclusive, self.alock);
  }
};

struct Nlm4Unlockargs {
  Netobj cookie;
  Nlm4Lock alock;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.alock);
  }
};

struct Nlm4Res {
  Netobj cookie;
  Nlm4Stats stat = Nlm4Stats::kGranted;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.stat);
  }
};

struct Nlm4Testres {
  Netobj cookie;
  Nlm4Stats stat = Nlm4Stats::kGranted;
  Nlm4Holder holder;  // only for kDenied
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.stat);
    if (self.stat == Nlm4Stats::kDenied) codec(self.holder);
  }
};

// Bits of Nlm4Share::mode (denied to others) and Nlm4Share::access.
inline constexpr uint32_t kFsh4Read = 1;
inline constexpr uint32_t kFsh4Write = 2;
inline constexpr uint32_t kFsh4Both = kFsh4Read | kFsh4Write;

struct Nlm4Share {
  oncrpc::BoundedString<kLmMaxstrlen> caller_name;
  Netobj fh;
  Netobj oh;
  uint32_t mode = 0;
  uint32_t access = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.caller_name, self.fh, self.oh, self.mode, self.access);
  }
};

// SHARE and UNSHARE
struct Nlm4Shareargs {
  Netobj cookie;
  Nlm4Share share;
  bool reclaim = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.share, self.reclaim);
  }
};

struct Nlm4Shareres {
  Netobj cookie;
  Nlm4Stats stat = Nlm4Stats::kGranted;
  uint32_t sequence = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.cookie, self.stat, self.sequence);
  }
};

// FREE_ALL
struct Nlm4Notify {
  oncrpc::BoundedString<kLmMaxstrlen> name;
  uint32_t state = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.name, self.state);
  }
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_NLM_H_
