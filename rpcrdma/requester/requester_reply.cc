// How a reply is taken, or discarded.
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "oncrpc/reply_status.h"
#include "rpcrdma/requester/requester.h"
#include "stack/base/byte_order.h"
#include "stack/base/probe.h"

namespace pollux::rpcrdma {

// RFC 8166 section 4.5: what cannot be the reply to a call is discarded in silence (and counted).
// What can be, since its XID, version and procedure are right, and makes no sense beyond, ends the
// call: no other reply will come.
void Requester::OnMessage(const Connection::Arrival& arrival) {
  if (!TakePlainReply(arrival)) TakeMessage(arrival);
  connection_->Repost(arrival.receive);
  SendWaiting();
}

bool Requester::MayInvalidate(const Slot& slot, uint32_t key) {
  for (uint8_t i = 0; i < slot.region_count; ++i) {
    if (slot.regions[i].key == key) return true;
  }
  return false;
}

bool Requester::TakePlainReply(const Connection::Arrival& arrival) {
  if (!arrival.plain || arrival.invalidated != 0) [[unlikely]]
    return false;
  const uint8_t* const message = arrival.message.data();
  Slot* const slot = FindXid(LoadBe32(message + kXidAt));
  if (slot == nullptr || slot->state != State::kSent || slot->has_chunks) [[unlikely]]
    return false;
  const size_t rpc_bytes = arrival.message.size() - kMinHeaderBytes;
  // RFC 8166 section 4.2.1: both XIDs are the same.
  if (!oncrpc::ParsePlainReply({message + kMinHeaderBytes, rpc_bytes}, &plain_reply_.header) ||
      plain_reply_.header.xid != slot->xid) [[unlikely]] {
    return false;
  }
  plain_reply_.results = {message + kMinHeaderBytes + oncrpc::kReplyHeaderBytes,
                          rpc_bytes - oncrpc::kReplyHeaderBytes};
  ++counters_->replies_received;
  ++replies_on_connection_;
  window_.OnReply(LoadBe32(message + kCreditsAt));
  probe::RpcClientEnd(slot->xid, probe::CallOutcome::kReply);
  // Nothing was offered for it.
  FinishFenced(*slot, absl::OkStatus(), &plain_reply_);
  return true;
}

void Requester::TakeMessage(const Connection::Arrival& arrival) {
  // A plain message's is parsed here: it is no plain reply to a plain call.
  const auto& [status, header_bytes, header] =
      arrival.header != nullptr ? *arrival.header : connection_->Parse(arrival.message);
  // The fixed fields of what is malformed are valid.
  const bool has_xid = status == HeaderStatus::kOk || status == HeaderStatus::kMalformed;
  Slot* slot = has_xid ? FindXid(header.xid) : nullptr;
  oncrpc::Reply reply;
  if (arrival.invalidated != 0) {
    // RFC 8797 section 4.1: of this XID only. Another call's memory is gone, and with it the call:
    // all are sent again on another connection.
    if (slot == nullptr || !MayInvalidate(*slot, arrival.invalidated)) {
      Count(Refusal::kBadInvalidation);
      return connection_->MarkBroken();
    }
    ++counters_->remote_invalidations;
  }
  if (status == HeaderStatus::kTooShort) {
    Count(Refusal::kShortMessage);
  } else if (status == HeaderStatus::kMalformed && slot != nullptr &&
             (header.proc == Proc::kMsg || header.proc == Proc::kNomsg)) {
    FailAnswered(*slot, Refusal::kBadReplyHeader, window_.granted());
  } else if (status != HeaderStatus::kOk) {
    Count(Refusal::kBadReplyHeader);
  } else if (header.proc == Proc::kDone || header.proc == Proc::kMsgp) {
    // RFC 8166 section 4.6.1 and section 4.6.2
    Count(Refusal::kObsolete);
  } else if (slot == nullptr) {
    Count(Refusal::kUnknownXid);
  } else if (slot->state == State::kAbandoned) {
    // The caller has its memory back: nothing in it is looked at.
    ++counters_->late_replies;
    window_.OnReply(header.credits);
    Finish(*slot, absl::OkStatus(), nullptr);
  } else if (header.proc == Proc::kError) {
    ++counters_->errors_received;
    probe::RpcClientEnd(slot->xid, probe::CallOutcome::kError);
    window_.OnReply(header.credits);
    Finish(*slot,
           absl::FailedPreconditionError(
               header.error == ErrorCode::kVersion
                   ? absl::StrFormat("the server supports only RPC-over-RDMA versions %d to %d",
                                     header.version_low, header.version_high)
                   : "the server refuses the call's transport header or cannot send its reply "
                     "(ERR_CHUNK)"),
           nullptr);
  } else if (!CheckChunks(*slot, header)) {
    FailAnswered(*slot, Refusal::kBadReplyChunks,
                 arrival.is_directed ? header.credits : window_.granted());
  } else if (!TakeReply(*slot, header, arrival.message.subspan(header_bytes), &reply)) {
    // RFC 8167 section 4.1
    FailAnswered(*slot, Refusal::kBadRpcReply,
                 arrival.is_directed ? header.credits : window_.granted());
  } else {
    ++counters_->replies_received;
    ++replies_on_connection_;
    window_.OnReply(header.credits);
    probe::RpcClientEnd(slot->xid, probe::CallOutcome::kReply);
    Finish(*slot, oncrpc::StatusOf(reply.header, *binding_, slot->request.procedure), &reply);
  }
}

void Requester::FailAnswered(Slot& slot, Refusal why, uint32_t credits) {
  Count(why);
  if (slot.state == State::kSent) probe::RpcClientEnd(slot.xid, probe::CallOutcome::kInvalidReply);
  window_.OnReply(credits);
  Finish(slot,
         absl::DataLossError(
             "the server's reply is invalid: the counters bad_reply_headers, bad_reply_chunks "
             "and bad_rpc_replies show why"),
         nullptr);
}

bool Requester::CheckChunks(const Slot& slot, const Header& header) {
  const ChunkLists& chunks = header.chunks;
  const auto fits = [&chunks](const WriteChunk& chunk, const Segment& offered) {
    const absl::Span<const Segment> segments = chunks.SegmentsOf(chunk);
    // RFC 8166 section 4.3.2.3: an empty chunk comes back empty.
    if (offered.length == 0) return segments.empty();
    return segments.size() == 1 && segments[0].handle == offered.handle &&
           segments[0].offset == offered.offset && segments[0].length <= offered.length;
  };
  // RFC 8166 section 4.3.1: replies have no Read list.
  if (chunks.read_count != 0) return false;
  if (chunks.write_chunk_count > slot.write_chunk_count) return false;
  for (size_t i = 0; i < chunks.write_chunk_count; ++i) {
    if (!fits(chunks.write_chunks[i], slot.write_chunks[i])) return false;
  }
  if (chunks.has_reply && !(slot.offered_reply && fits(chunks.reply, slot.reply_chunk))) {
    return false;
  }
  // A reply is in the message or in the Reply chunk, never in both.
  const uint64_t in_chunk = chunks.has_reply ? chunks.BytesOf(chunks.reply) : 0;
  return (header.proc == Proc::kNomsg) == (in_chunk > 0);
}

bool Requester::TakeReply(Slot& slot, const Header& header, absl::Span<const uint8_t> payload,
                          oncrpc::Reply* reply) {
  const ChunkLists& chunks = header.chunks;
  // RFC 8166 section 4.4.1 and RFC 5042 section 10.2: the Responder is locked out before anything
  // is looked at.
  Fence(slot);
  if (header.proc == Proc::kNomsg) {
    payload = slot.request.reply_buffer.first(chunks.BytesOf(chunks.reply));
  }
  const size_t rpc_bytes = oncrpc::ParseReply(payload, &reply->header);
  // RFC 8166 section 4.2.1: both XIDs are the same.
  if (rpc_bytes == 0 || reply->header.xid != slot.xid) return false;
  reply->results = payload.subspan(rpc_bytes);
  if (reply->header.denied || reply->header.accept_status != oncrpc::AcceptStatus::kSuccess)
    return true;
  // RFC 8166 section 4.3.2.2: what the chunks hold beyond that is nobody's.
  for (size_t i = 0; i < slot.write_chunk_count; ++i) {
    const bool returned = i < chunks.write_chunk_count;
    const size_t used = returned ? chunks.BytesOf(chunks.write_chunks[i]) : 0;
    results_[i] = {.bytes = slot.request.item_buffers[i].first(used),
                   .position = std::nullopt,
                   .in_stream = slot.write_chunks[i].length == 0};
  }
  reply->items = {results_.data(), slot.write_chunk_count};
  return true;
}

}  // namespace pollux::rpcrdma
