// The callbacks of an NFS version 4.1 server that are needed to recall a delegation. Source: RFC
// 8881.
#ifndef POLLUX_TESTS_INTEROP_PEER_NFS4_CALLBACK_H_
#define POLLUX_TESTS_INTEROP_PEER_NFS4_CALLBACK_H_

#include <cstdint>
#include <optional>
#include <type_traits>

#include "oncrpc/codec.h"
#include "tests/interop/peer/nfs4.h"

namespace pollux::nfs4 {

inline constexpr uint32_t kCallbackVersion = 1;

enum class CbOp : uint32_t { kRecall = 4, kSequence = 11 };
// The compounds below determine which operation may come where.
constexpr bool IsValid(CbOp) { return true; }

// Section 20.9
struct ReferringCall {
  uint32_t sequenceid = 0;
  uint32_t slot = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.sequenceid, self.slot);
  }
};
struct ReferringCalls {
  SessionId session;
  oncrpc::BoundedArray<ReferringCall, 16> calls;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.session, self.calls);
  }
};
struct CbSequence {
  SessionId session;
  uint32_t sequenceid = 0;
  uint32_t slot = 0;
  uint32_t highest_slot = 0;
  bool cache_this = false;
  oncrpc::BoundedArray<ReferringCalls, 4> referring;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.session, self.sequenceid, self.slot, self.highest_slot, self.cache_this,
          self.referring);
  }
};
// Section 20.2
struct CbRecall {
  Stateid stateid;
  bool truncate = false;
  Handle handle;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.stateid, self.truncate, self.handle);
  }
};

// CB_SEQUENCE, alone or before a CB_RECALL. Section 20.1 and the procedure's arguments in 16.2
struct CbCompound {
  CbSequence sequence;
  std::optional<CbRecall> recall;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    oncrpc::BoundedString<kMaxTag> tag;
    uint32_t minor_version = kMinorVersion, ident = 0, count = self.recall.has_value() ? 2 : 1;
    CbOp op = CbOp::kSequence;
    codec(tag, minor_version, ident, count, op);
    if (minor_version != kMinorVersion || count < 1 || count > 2) return codec.Fail();
    if (op != CbOp::kSequence) return codec.Fail();
    codec(self.sequence);
    if (count == 1) return;
    op = CbOp::kRecall;
    codec(op);
    if (op != CbOp::kRecall) return codec.Fail();
    if constexpr (!std::is_const_v<Self>) self.recall.emplace();
    codec(*self.recall);
  }
};
// Either all operations have succeeded, or CB_SEQUENCE has failed with `status`.
struct CbCompoundRes {
  uint32_t status = kOk;
  SessionId session;
  uint32_t sequenceid = 0;
  uint32_t slot = 0;
  uint32_t highest_slot = 0;
  uint32_t target_highest_slot = 0;
  bool recalled = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    oncrpc::BoundedString<kMaxTag> tag;
    uint32_t status = self.status, count = self.status == kOk && self.recalled ? 2 : 1;
    CbOp op = CbOp::kSequence;
    codec(self.status, tag, count, op, status);
    if (self.status != kOk) return;
    codec(self.session, self.sequenceid, self.slot, self.highest_slot, self.target_highest_slot);
    if constexpr (!std::is_const_v<Self>) self.recalled = count == 2;
    if (count != 2) return;
    op = CbOp::kRecall;
    codec(op, status);
  }
};

}  // namespace pollux::nfs4

#endif  // POLLUX_TESTS_INTEROP_PEER_NFS4_CALLBACK_H_
