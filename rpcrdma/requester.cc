#include "rpcrdma/requester.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::rpcrdma {
namespace {

constexpr size_t kWriteChunkBytes = 8 + kSegmentBytes;  // marker, count, one segment
constexpr size_t kReplyChunkBytes = 4 + kSegmentBytes;  // count, one segment

absl::Status StatusOf(const ReplyHeader& reply) {
  if (reply.denied) {
    return reply.reject_status == RejectStatus::kAuthError
               ? absl::PermissionDeniedError(absl::StrFormat(
                     "the server denies the call: authentication status %d", reply.auth_status))
               : absl::UnimplementedError("the server speaks another version of RPC");
  }
  switch (reply.accept_status) {
    case AcceptStatus::kSuccess:
      return absl::OkStatus();
    case AcceptStatus::kProgramUnavailable:
      return absl::UnimplementedError("the server has no such program");
    case AcceptStatus::kProgramMismatch:
      return absl::UnimplementedError(absl::StrFormat(
          "the server has only versions %d to %d of the program", reply.low, reply.high));
    case AcceptStatus::kProcedureUnavailable:
      return absl::UnimplementedError("the server has no such procedure");
    case AcceptStatus::kGarbageArguments:
      return absl::InvalidArgumentError("the server cannot decode the arguments");
    case AcceptStatus::kSystemError:
      break;
  }
  return absl::InternalError("the server failed to serve the call");
}

}  // namespace

Requester::Requester(Connection* connection, const ProgramBinding* binding,
                     const RequesterConfig& config, const InlineThresholds& thresholds,
                     Counters* counters)
    : connection_(connection),
      binding_(binding),
      config_(config),
      thresholds_(thresholds),
      counters_(counters),
      window_(config.credits),
      next_xid_(connection->worker()->random().Next32()),
      buffer_uses_(connection->config().send_buffers),
      by_xid_(std::bit_ceil(size_t{config.max_calls} * 4)),
      waiting_(config.max_calls) {
  for (uint32_t i = 0; i < config.max_calls; ++i) {
    slots_.push_back(std::make_unique<Slot>(this));
    slots_.back()->index = i;
    free_slots_.push_back(config.max_calls - 1 - i);
  }
  for (uint32_t i = 0; i < connection->config().send_buffers; ++i) free_buffers_.push_back(i);
}

Requester::~Requester() { FailAll(absl::CancelledError("the client is gone")); }

absl::StatusOr<Requester::Plan> Requester::MakePlan(const CallRequest& request) const {
  const ProcedureBinding* binding = binding_->Find(request.procedure);
  if (binding == nullptr) {
    return absl::InvalidArgumentError(absl::StrFormat("program %#x has no binding for procedure %d",
                                                      binding_->program, request.procedure));
  }
  const size_t item_bytes = request.item.has_value() ? request.item->bytes.size() : 0;
  // RFC 8166 section 6.1: only eligible items may be reduced.
  if (request.arguments.size() > binding->max_argument_bytes ||
      item_bytes > binding->max_eligible_argument_bytes || request.arguments.size() % 4 != 0 ||
      (request.item.has_value() &&
       (request.item->position % 4 != 0 || request.item->position > request.arguments.size())) ||
      (!request.item_buffer.empty() && binding->max_eligible_result_bytes == 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: %d bytes of arguments and an item of %d do not fit its "
        "binding (%d and %d)",
        request.procedure, binding_->program, request.arguments.size(), item_bytes,
        binding->max_argument_bytes, binding->max_eligible_argument_bytes));
  }

  Plan plan;
  size_t header = kMinHeaderBytes;
  // RFC 8166 section 4.3.3: by the maximum possible size of transport header and payload.
  size_t reply = kReplyHeaderBytes + request.max_result_bytes.value_or(binding->max_result_bytes);
  const size_t item_room =
      request.item_buffer.empty() ? binding->max_eligible_result_bytes : request.item_buffer.size();
  const size_t inline_reply = reply + XdrRoundUp(item_room);
  if (kMinHeaderBytes + inline_reply > thresholds_.server_to_client) {
    plan.write_chunk = !request.item_buffer.empty();
    if (!plan.write_chunk) reply = inline_reply;
    header += plan.write_chunk ? kWriteChunkBytes : 0;
    plan.reply_chunk = header + reply > thresholds_.server_to_client;
    header += plan.reply_chunk ? kReplyChunkBytes : 0;
  }
  if (plan.reply_chunk && request.reply_buffer.size() < reply) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: the reply can take %d bytes; the reply buffer has %d",
        request.procedure, binding_->program, reply, request.reply_buffer.size()));
  }

  const size_t payload =
      CallHeaderBytes({.credential = config_.credential}) + request.arguments.size();
  if (header + payload + XdrRoundUp(item_bytes) > thresholds_.client_to_server) {
    plan.read_chunk = item_bytes > 0;
    header += plan.read_chunk ? kReadSegmentBytes : 0;
    // RFC 8166 section 3.5.3
    plan.long_call = header + payload > thresholds_.client_to_server;
  }
  return plan;
}

absl::Status Requester::Call(const CallRequest& request, CallDone done) {
  if (!down_.ok()) return down_;
  if (auto plan = MakePlan(request); !plan.ok()) return plan.status();
  if (free_slots_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%d calls are outstanding or waiting", config_.max_calls));
  }
  Slot& slot = *slots_[free_slots_.back()];
  free_slots_.pop_back();
  slot.state = State::kWaiting;
  slot.request = request;
  slot.done = std::move(done);
  if (request.timeout_ns != 0) {
    engine::Worker& worker = *connection_->worker();
    worker.wheel().Arm(slot.timer, worker.now_ns() + request.timeout_ns);
  }
  waiting_[(waiting_head_ + waiting_count_++) % config_.max_calls] = slot.index;
  SendWaiting();
  return absl::OkStatus();
}

void Requester::SendWaiting() {
  while (waiting_count_ > 0 && window_.CanSend() && !free_buffers_.empty() &&
         connection_->send_room() > 0 && !connection_->broken()) {
    Slot& slot = *slots_[waiting_[waiting_head_]];
    waiting_head_ = (waiting_head_ + 1) % config_.max_calls;
    --waiting_count_;
    if (slot.state == State::kAbandoned) {
      Release(slot);
    } else {
      SendCall(slot);
    }
  }
}

void Requester::SendCall(Slot& slot) {
  const uint32_t buffer = free_buffers_.back();
  size_t bytes = 0;
  TakeXid(slot);
  slot.state = State::kSent;
  window_.OnSend();
  buffer_uses_[buffer] = 1;
  // RFC 8166 section 4.5.4: what cannot be built or sent fails. A region table that is full is no
  // state to go on in: the connection is given up, and with it, cleanly, its calls.
  if (!BuildCall(slot, buffer, &bytes).ok()) {
    connection_->MarkBroken();
    return;
  }
  free_buffers_.pop_back();
  ++counters_->calls_sent;
  connection_->PostSend(buffer, static_cast<uint32_t>(bytes), buffer);
}

void Requester::TakeXid(Slot& slot) {
  const uint32_t mask = static_cast<uint32_t>(by_xid_.size() - 1);
  while (by_xid_[next_xid_ & mask] != nullptr) ++next_xid_;
  slot.xid = next_xid_++;
  by_xid_[slot.xid & mask] = &slot;
}

Requester::Slot* Requester::FindXid(uint32_t xid) {
  Slot* slot = by_xid_[xid & (by_xid_.size() - 1)];
  return slot != nullptr && slot->xid == xid ? slot : nullptr;
}

absl::Status Requester::Offer(Slot& slot, absl::Span<const uint8_t> memory, int access,
                              Segment* segment) {
  auto region = connection_->Register(memory.data(), memory.size(), access);
  if (!region.ok()) return region.status();
  slot.regions[slot.region_count++] = *region;
  ++advertised_;
  *segment = {region->key, static_cast<uint32_t>(memory.size()), region->iova};
  return absl::OkStatus();
}

absl::Status Requester::BuildCall(Slot& slot, uint32_t buffer, size_t* bytes) {
  const CallRequest& request = slot.request;
  const Plan plan = MakePlan(request).value_or(Plan{});
  const CallHeader call{.xid = slot.xid,
                        .program = binding_->program,
                        .version = binding_->version,
                        .procedure = request.procedure,
                        .credential = config_.credential};
  const size_t call_bytes = CallHeaderBytes(call);
  const absl::Span<uint8_t> out = connection_->send_buffer(buffer);

  header_.xid = slot.xid;
  header_.version = kVersion;
  header_.credits = window_.requested();
  header_.proc = plan.long_call ? Proc::kNomsg : Proc::kMsg;
  header_.chunks.Clear();
  Segment segment;
  if (plan.long_call) {
    // The RPC header lies at the end of the send buffer, which the message itself leaves free.
    const absl::Span<uint8_t> rpc = out.last(call_bytes);
    EmitCall(call, rpc);
    if (absl::Status s = Offer(slot, rpc, IBV_ACCESS_REMOTE_READ, &segment); !s.ok()) return s;
    // It stays until the server is locked out, which is later than the SEND is done.
    slot.header_buffer = buffer;
    ++buffer_uses_[buffer];
    header_.chunks.AddRead(0, segment);
    if (!request.arguments.empty()) {
      absl::Status s = Offer(slot, request.arguments, IBV_ACCESS_REMOTE_READ, &segment);
      if (!s.ok()) return s;
      header_.chunks.AddRead(0, segment);
    }
  }
  if (plan.read_chunk) {
    absl::Status s = Offer(slot, request.item->bytes, IBV_ACCESS_REMOTE_READ, &segment);
    if (!s.ok()) return s;
    // RFC 8166 section 3.4.5
    header_.chunks.AddRead(static_cast<uint32_t>(call_bytes + request.item->position), segment);
  }
  const int writable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  slot.offered_write = plan.write_chunk;
  if (plan.write_chunk) {
    absl::Status s = Offer(slot, request.item_buffer, writable, &slot.write_chunk);
    if (!s.ok()) return s;
    header_.chunks.AddWriteChunk({&slot.write_chunk, 1});
  }
  slot.offered_reply = plan.reply_chunk;
  if (plan.reply_chunk) {
    absl::Status s = Offer(slot, request.reply_buffer, writable, &slot.reply_chunk);
    if (!s.ok()) return s;
    header_.chunks.SetReply({&slot.reply_chunk, 1});
  }

  const size_t header_bytes = EmitHeader(header_, out);
  *bytes = header_bytes;
  if (plan.long_call) return absl::OkStatus();
  XdrWriter rest(out.subspan(header_bytes + EmitCall(call, out.subspan(header_bytes))));
  if (request.item.has_value() && !plan.read_chunk) {
    rest.FixedOpaque(request.arguments.first(request.item->position));
    rest.FixedOpaque(request.item->bytes);
    rest.FixedOpaque(request.arguments.subspan(request.item->position));
  } else {
    rest.FixedOpaque(request.arguments);
  }
  *bytes += call_bytes + rest.size();
  return rest.ok() ? absl::OkStatus() : absl::InternalError("the call outgrew its send buffer");
}

void Requester::OnSent(uint32_t cookie) {
  ReleaseBuffer(cookie);
  SendWaiting();
}

void Requester::ReleaseBuffer(uint32_t buffer) {
  if (--buffer_uses_[buffer] == 0) free_buffers_.push_back(buffer);
}

// RFC 8166 section 4.5: what is wrong with a reply is discarded in silence (and counted).
void Requester::OnMessage(uint32_t receive, absl::Span<const uint8_t> message) {
  size_t header_bytes = 0;
  const HeaderStatus status = ParseHeader(message, &header_, &header_bytes);
  Slot* slot = status == HeaderStatus::kOk ? FindXid(header_.xid) : nullptr;
  Reply reply;
  if (status == HeaderStatus::kTooShort) {
    ++counters_->short_messages;
  } else if (status != HeaderStatus::kOk) {
    ++counters_->bad_reply_headers;
  } else if (header_.proc == Proc::kDone || header_.proc == Proc::kMsgp) {
    // RFC 8166 section 4.6
    ++counters_->obsolete_messages;
  } else if (slot == nullptr) {
    ++counters_->unknown_xids;
  } else if (slot->state == State::kAbandoned) {
    // The caller has its memory back: nothing in it is looked at.
    ++counters_->late_replies;
    window_.OnReply(header_.credits);
    Finish(*slot, absl::OkStatus(), nullptr);
  } else if (header_.proc == Proc::kError) {
    ++counters_->errors_received;
    window_.OnReply(header_.credits);
    Finish(*slot,
           absl::FailedPreconditionError(
               header_.error == ErrorCode::kVersion
                   ? absl::StrFormat("the server speaks RPC-over-RDMA versions %d to %d only",
                                     header_.version_low, header_.version_high)
                   : "the server refuses the call's transport header or cannot send its reply "
                     "(ERR_CHUNK)"),
           nullptr);
  } else if (!CheckChunks(*slot, header_.chunks)) {
    ++counters_->bad_reply_chunks;
  } else if (!TakeReply(*slot, message, header_bytes, &reply)) {
    ++counters_->bad_rpc_replies;
  } else {
    ++counters_->replies_received;
    window_.OnReply(header_.credits);
    Finish(*slot, StatusOf(reply.header), &reply);
  }
  connection_->Repost(receive);
  SendWaiting();
}

bool Requester::CheckChunks(const Slot& slot, const ChunkLists& chunks) {
  const auto fits = [&chunks](const WriteChunk& chunk, const Segment& offered) {
    const absl::Span<const Segment> segments = chunks.SegmentsOf(chunk);
    return segments.size() == 1 && segments[0].handle == offered.handle &&
           segments[0].offset == offered.offset && segments[0].length <= offered.length;
  };
  // RFC 8166 section 4.3.1: replies have no Read list.
  if (chunks.read_count != 0) return false;
  if (chunks.write_chunk_count > (slot.offered_write ? 1 : 0)) return false;
  if (chunks.write_chunk_count == 1 && !fits(chunks.write_chunks[0], slot.write_chunk)) {
    return false;
  }
  if (chunks.has_reply && !(slot.offered_reply && fits(chunks.reply, slot.reply_chunk))) {
    return false;
  }
  // A reply is in the message or in the Reply chunk, never in both.
  const uint64_t in_chunk = chunks.has_reply ? chunks.BytesOf(chunks.reply) : 0;
  return (header_.proc == Proc::kNomsg) == (in_chunk > 0);
}

bool Requester::TakeReply(Slot& slot, absl::Span<const uint8_t> message, size_t header_bytes,
                          Reply* reply) {
  const ChunkLists& chunks = header_.chunks;
  // RFC 8166 section 4.4.1: the Responder is locked out before anything is looked at.
  Fence(slot);
  absl::Span<const uint8_t> payload = message.subspan(header_bytes);
  if (header_.proc == Proc::kNomsg) {
    payload = slot.request.reply_buffer.first(chunks.BytesOf(chunks.reply));
  }
  const size_t rpc_bytes = ParseReply(payload, &reply->header);
  // RFC 8166 section 4.2.1: both XIDs are the same.
  if (rpc_bytes == 0 || reply->header.xid != slot.xid) return false;
  reply->results = payload.subspan(rpc_bytes);
  if (slot.offered_write && !reply->header.denied &&
      reply->header.accept_status == AcceptStatus::kSuccess) {
    const size_t used = chunks.write_chunk_count == 1 ? chunks.BytesOf(chunks.write_chunks[0]) : 0;
    reply->item = ReducedItem{slot.request.item_buffer.first(used), std::nullopt};
  }
  return true;
}

void Requester::Fence(Slot& slot) {
  for (uint8_t i = 0; i < slot.region_count; ++i) connection_->Deregister(slot.regions[i]);
  advertised_ -= slot.region_count;
  slot.region_count = 0;
  if (slot.header_buffer != kNoBuffer) ReleaseBuffer(std::exchange(slot.header_buffer, kNoBuffer));
}

void Requester::Finish(Slot& slot, absl::Status status, const Reply* reply) {
  Fence(slot);
  slot.timer.Cancel();
  CallDone done = std::move(slot.done);
  const bool abandoned = slot.state == State::kAbandoned;
  by_xid_[slot.xid & (by_xid_.size() - 1)] = nullptr;
  Release(slot);
  if (!abandoned) done(std::move(status), reply);
}

void Requester::Release(Slot& slot) {
  slot.state = State::kFree;
  slot.done = nullptr;
  free_slots_.push_back(slot.index);
}

void Requester::OnTimeout(void* context, uint64_t /*now_ns*/) {
  Slot& slot = *static_cast<Slot*>(context);
  Requester& self = *slot.requester;
  self.Fence(slot);
  ++self.counters_->calls_failed;
  slot.state = State::kAbandoned;
  CallDone done = std::move(slot.done);
  done(absl::DeadlineExceededError("no reply in time"), nullptr);
}

void Requester::FailAll(const absl::Status& status) {
  down_ = status;
  waiting_count_ = 0;
  for (auto& slot : slots_) {
    if (slot->state == State::kFree) continue;
    const bool abandoned = slot->state == State::kAbandoned;
    Fence(*slot);
    slot->timer.Cancel();
    CallDone done = std::move(slot->done);
    Release(*slot);
    if (abandoned) continue;
    ++counters_->calls_failed;
    done(status, nullptr);
  }
  std::fill(by_xid_.begin(), by_xid_.end(), nullptr);
}

}  // namespace pollux::rpcrdma
