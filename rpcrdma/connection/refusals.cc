#include "rpcrdma/connection/refusals.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::rpcrdma {
namespace {

struct Kind {
  uint64_t Counters::*counter;
  const char* words;
};

Kind KindOf(Refusal what) {
  switch (what) {
    case Refusal::kShortMessage:
      return {&Counters::short_messages,
              "a message shorter than any header, or an RDMA WRITE with immediate data, discarded"};
    case Refusal::kObsolete:
      return {&Counters::obsolete_messages,
              "a message of an obsolete kind (RDMA_DONE, RDMA_MSGP), discarded"};
    case Refusal::kUnwantedError:
      return {&Counters::unwanted_errors, "an RDMA_ERROR where calls are expected, discarded"};
    case Refusal::kVersion:
      return {&Counters::version_errors_sent,
              "a call of another version of RPC-over-RDMA, answered ERR_VERS"};
    case Refusal::kBadCall:
      return {&Counters::bad_calls, "a call with invalid headers or chunks, answered ERR_CHUNK"};
    case Refusal::kIneligible:
      return {&Counters::eligibility_violations,
              "a call with chunks that its program's binding does not allow, answered ERR_CHUNK"};
    case Refusal::kNotServed:
      return {&Counters::calls_refused,
              "a call of a program, version or procedure that is not served here"};
    case Refusal::kReplyTooLarge:
      return {&Counters::replies_too_large,
              "a call that offers too little room for its reply, answered ERR_CHUNK"};
    case Refusal::kReplyGone:
      return {&Counters::duplicates_refused,
              "a repeated call whose reply is no longer stored, answered ERR_CHUNK"};
    case Refusal::kUnreachableMemory:
      return {&Counters::unreachable_memory,
              "a call that offers memory which cannot be accessed: the connection ends"};
    case Refusal::kStalled:
      return {&Counters::connections_stalled, "accepts no replies: the connection ends"};
    case Refusal::kBadReplyHeader:
      return {
          &Counters::bad_reply_headers,
          "a reply with an invalid transport header: its call fails, if its XID is that of a call"};
    case Refusal::kUnknownXid:
      return {&Counters::unknown_xids, "a reply to no outstanding call, discarded"};
    case Refusal::kBadReplyChunks:
      return {&Counters::bad_reply_chunks,
              "a reply with chunks other than those that its call offered: the call fails"};
    case Refusal::kBadRpcReply:
      return {&Counters::bad_rpc_replies,
              "a message without an RPC reply that has the XID of its transport header: the call "
              "fails"};
    case Refusal::kBadInvalidation:
      break;
  }
  return {&Counters::bad_invalidations,
          "invalidates memory of another call, or with a call: the connection ends"};
}

}  // namespace

void Refusals::Count(Refusal what, Counters* counters) {
  const auto index = static_cast<uint32_t>(what);
  ++(counters->*KindOf(what).counter);
  if (counts_[index]++ > 0) return;
  untold_ |= 1u << index;
  if (!timer_.armed()) worker_->wheel().Arm(timer_, worker_->now_ns() + kDelayNs);
}

void Refusals::Tell() {
  timer_.Cancel();
  const uint32_t untold = std::exchange(untold_, 0);
  if (log_ == nullptr) return;
  for (uint32_t i = 0; i < kRefusals; ++i) {
    if ((untold >> i & 1) == 0) continue;
    std::string line = KindOf(static_cast<Refusal>(i)).words;
    if (counts_[i] > 1) absl::StrAppend(&line, "; ", counts_[i], " so far on this connection");
    log_->Write(peer_, line, worker_->now_ns());
  }
}

}  // namespace pollux::rpcrdma
