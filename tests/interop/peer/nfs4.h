// The part of NFS version 4.1 that is needed for a session in which a file is opened and a
// delegation is returned: compounds of operations with their arguments and results. Source: RFC
// 8881.
#ifndef POLLUX_TESTS_INTEROP_PEER_NFS4_H_
#define POLLUX_TESTS_INTEROP_PEER_NFS4_H_

#include <array>
#include <cstdint>
#include <tuple>

#include "oncrpc/auth_sys.h"
#include "oncrpc/codec.h"

namespace pollux::nfs4 {

inline constexpr uint32_t kProgram = 100003;
inline constexpr uint32_t kVersion = 4;
inline constexpr uint32_t kMinorVersion = 1;
inline constexpr uint32_t kCallbackProgram = 0x40000000;  // announced by CREATE_SESSION
inline constexpr uint32_t kMaxTag = 64;
inline constexpr uint32_t kMaxHandle = 128;  // NFS4_FHSIZE
// the most that this side sends; the protocol allows 1,024
inline constexpr uint32_t kMaxOwner = 64;
inline constexpr uint32_t kMaxOpaque = 1024;
inline constexpr uint32_t kMaxName = 255;

enum Procedure : uint32_t { kNull = 0, kCompound = 1 };  // also for callbacks

enum Status : uint32_t {
  kOk = 0,
  kErrDelay = 10008,
  kErrGrace = 10013,
  kErrBadSession = 10052,
};

enum class Op : uint32_t {
  kClose = 4,
  kDelegreturn = 8,
  kGetfh = 10,
  kOpen = 18,
  kPutfh = 22,
  kPutrootfh = 24,
  kExchangeId = 42,
  kCreateSession = 43,
  kDestroySession = 44,
  kSequence = 53,
  kDestroyClientid = 57,
  kReclaimComplete = 58,
};
// The compounds below determine which operation may come where.
constexpr bool IsValid(Op) { return true; }

using Handle = oncrpc::InlineOpaque<kMaxHandle>;
using Owner = oncrpc::InlineOpaque<kMaxOwner>;
using Name = oncrpc::BoundedString<kMaxName>;

// opaque[16]
struct SessionId {
  std::array<uint64_t, 2> words{};
  friend bool operator==(const SessionId&, const SessionId&) = default;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.words[0], self.words[1]);
  }
};

struct Stateid {
  uint32_t seqid = 0;
  uint64_t other = 0;  // opaque[12]: its first eight bytes, and the last four
  uint32_t other_end = 0;
  friend bool operator==(const Stateid&, const Stateid&) = default;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.seqid, self.other, self.other_end);
  }
};

// Section 18.36: sizes are those of RPC messages in bytes.
struct ChannelAttrs {
  uint32_t header_pad = 0;
  uint32_t max_request = 0;
  uint32_t max_response = 0;
  uint32_t max_response_cached = 0;
  uint32_t max_operations = 0;
  uint32_t max_requests = 0;
  oncrpc::BoundedArray<uint32_t, 1> rdma_ird;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.header_pad, self.max_request, self.max_response, self.max_response_cached,
          self.max_operations, self.max_requests, self.rdma_ird);
  }
};

struct Implementation {
  oncrpc::BoundedString<kMaxOpaque> domain, name;
  uint64_t seconds = 0;
  uint32_t nanoseconds = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.domain, self.name, self.seconds, self.nanoseconds);
  }
};

// Section 18.35, without state protection (SP4_NONE).
struct ExchangeIdRes {
  uint64_t clientid = 0;
  uint32_t sequenceid = 0;
  uint32_t flags = 0;
  uint32_t protection = 0;
  uint64_t server_minor_id = 0;
  oncrpc::InlineOpaque<kMaxOpaque> server_major_id, server_scope;
  oncrpc::BoundedArray<Implementation, 1> implementation;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.clientid, self.sequenceid, self.flags, self.protection);
    if (self.protection != 0) return codec.Fail();
    codec(self.server_minor_id, self.server_major_id, self.server_scope, self.implementation);
  }
};
struct ExchangeId {
  static constexpr Op kOp = Op::kExchangeId;
  using Result = ExchangeIdRes;
  uint64_t verifier = 0;
  Owner owner;
  uint32_t flags = 0;
  uint32_t protection = 0;
  oncrpc::BoundedArray<Implementation, 1> implementation;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.verifier, self.owner, self.flags, self.protection, self.implementation);
  }
};

// The connection also carries calls to the client. Section 18.36.3
inline constexpr uint32_t kConnBackChan = 2;
struct CreateSessionRes {
  SessionId session;
  uint32_t sequence = 0;
  uint32_t flags = 0;
  ChannelAttrs fore, back;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.session, self.sequence, self.flags, self.fore, self.back);
  }
};
// Callbacks use AUTH_SYS.
struct CallbackSecurity {
  uint32_t flavor = 1;
  oncrpc::AuthSys credential;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.flavor, self.credential);
  }
};
struct CreateSession {
  static constexpr Op kOp = Op::kCreateSession;
  using Result = CreateSessionRes;
  uint64_t clientid = 0;
  uint32_t sequence = 0;
  uint32_t flags = 0;
  ChannelAttrs fore, back;
  uint32_t callback_program = kCallbackProgram;
  oncrpc::BoundedArray<CallbackSecurity, 1> security;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.clientid, self.sequence, self.flags, self.fore, self.back, self.callback_program,
          self.security);
  }
};

// Section 18.46
struct SequenceRes {
  SessionId session;
  uint32_t sequenceid = 0;
  uint32_t slot = 0;
  uint32_t highest_slot = 0;
  uint32_t target_highest_slot = 0;
  uint32_t status_flags = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.session, self.sequenceid, self.slot, self.highest_slot, self.target_highest_slot,
          self.status_flags);
  }
};
struct Sequence {
  static constexpr Op kOp = Op::kSequence;
  using Result = SequenceRes;
  SessionId session;
  uint32_t sequenceid = 0;
  uint32_t slot = 0;
  uint32_t highest_slot = 0;
  bool cache_this = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.session, self.sequenceid, self.slot, self.highest_slot, self.cache_this);
  }
};

struct ReclaimComplete {
  static constexpr Op kOp = Op::kReclaimComplete;
  using Result = oncrpc::Void;
  bool one_fs = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.one_fs);
  }
};

struct Putrootfh : oncrpc::Void {
  static constexpr Op kOp = Op::kPutrootfh;
  using Result = oncrpc::Void;
};
struct Putfh {
  static constexpr Op kOp = Op::kPutfh;
  using Result = oncrpc::Void;
  Handle handle;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.handle);
  }
};
struct GetfhRes {
  Handle handle;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.handle);
  }
};
struct Getfh : oncrpc::Void {
  static constexpr Op kOp = Op::kGetfh;
  using Result = GetfhRes;
};
// Section 18.16.1; the server may give a reason for not granting one.
struct Delegation {
  enum Type : uint32_t { kNone = 0, kRead = 1, kNoneExt = 3 };
  enum Why : uint32_t { kContention = 1, kResource = 2 };
  uint32_t type = kNone;
  Stateid stateid;
  bool recall = false;
  uint32_t ace_type = 0, ace_flags = 0, ace_mask = 0;
  oncrpc::BoundedString<kMaxOpaque> who;
  uint32_t why = 0;
  bool will_signal = false;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.type);
    if (self.type == kRead) {
      codec(self.stateid, self.recall, self.ace_type, self.ace_flags, self.ace_mask, self.who);
    } else if (self.type == kNoneExt) {
      codec(self.why);
      if (self.why == kContention || self.why == kResource) codec(self.will_signal);
    } else if (self.type != kNone) {
      codec.Fail();
    }
  }
};
struct OpenRes {
  Stateid stateid;
  bool atomic = false;
  uint64_t change_before = 0, change_after = 0;
  uint32_t flags = 0;
  oncrpc::BoundedArray<uint32_t, 3> attributes_set;
  Delegation delegation;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.stateid, self.atomic, self.change_before, self.change_after, self.flags,
          self.attributes_set, self.delegation);
  }
};
// Opens an existing file (OPEN4_NOCREATE) by its name in the current directory (CLAIM_NULL).
struct Open {
  static constexpr Op kOp = Op::kOpen;
  using Result = OpenRes;
  static constexpr uint32_t kShareAccessRead = 1, kWantReadDelegation = 0x100;
  uint32_t seqid = 0;
  uint32_t share_access = 0;
  uint32_t share_deny = 0;
  uint64_t clientid = 0;
  Owner owner;
  uint32_t open_type = 0;
  uint32_t claim = 0;
  Name name;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.seqid, self.share_access, self.share_deny, self.clientid, self.owner, self.open_type,
          self.claim, self.name);
  }
};
struct Close {
  static constexpr Op kOp = Op::kClose;
  using Result = Stateid;
  uint32_t seqid = 0;
  Stateid stateid;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.seqid, self.stateid);
  }
};
struct Delegreturn {
  static constexpr Op kOp = Op::kDelegreturn;
  using Result = oncrpc::Void;
  Stateid stateid;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.stateid);
  }
};
struct DestroySession {
  static constexpr Op kOp = Op::kDestroySession;
  using Result = oncrpc::Void;
  SessionId session;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.session);
  }
};
struct DestroyClientid {
  static constexpr Op kOp = Op::kDestroyClientid;
  using Result = oncrpc::Void;
  uint64_t clientid = 0;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    codec(self.clientid);
  }
};

// Section 16.2
template <class... Ops>
struct Compound {
  std::tuple<Ops...> ops;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    oncrpc::BoundedString<kMaxTag> tag;
    uint32_t minor_version = kMinorVersion, count = sizeof...(Ops);
    codec(tag, minor_version, count);
    if (minor_version != kMinorVersion || count != sizeof...(Ops)) return codec.Fail();
    const auto one = [&codec](auto& op) {
      Op number = op.kOp;
      codec(number);
      if (number != op.kOp) return codec.Fail();
      codec(op);
    };
    std::apply([&one](auto&... op) { (one(op), ...); }, self.ops);
  }
};

// The results end with those of the operation that failed, which has only a status.
template <class... Ops>
struct CompoundRes {
  uint32_t status = kOk;
  uint32_t answered = sizeof...(Ops);
  std::tuple<typename Ops::Result...> results;
  template <class Codec, class Self>
  static void Xdr(Codec& codec, Self& self) {
    oncrpc::BoundedString<kMaxTag> tag;
    codec(self.status, tag, self.answered);
    if (self.answered > sizeof...(Ops)) return codec.Fail();
    if (self.status == kOk && self.answered != sizeof...(Ops)) return codec.Fail();
    uint32_t left = self.answered;
    const auto one = [&](Op wanted, auto& result) {
      if (left == 0) return;
      --left;
      Op number = wanted;
      uint32_t status = left == 0 ? self.status : kOk;
      codec(number, status);
      if (number != wanted || status != (left == 0 ? self.status : kOk)) return codec.Fail();
      if (status == kOk) codec(result);
    };
    std::apply([&one](auto&... result) { (one(Ops::kOp, result), ...); }, self.results);
  }
};

}  // namespace pollux::nfs4

#endif  // POLLUX_TESTS_INTEROP_PEER_NFS4_H_
