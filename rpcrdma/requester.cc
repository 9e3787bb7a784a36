#include "rpcrdma/requester.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::rpcrdma {
namespace {

constexpr size_t kEmptyWriteChunkBytes = 8;                                 // marker, count
constexpr size_t kWriteChunkBytes = kEmptyWriteChunkBytes + kSegmentBytes;  // and one segment
constexpr size_t kReplyChunkBytes = 4 + kSegmentBytes;                      // count, one segment

absl::Status StatusOf(const ReplyHeader& reply, const ProgramBinding& binding, uint32_t procedure) {
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
      return absl::UnimplementedError(
          absl::StrFormat("the server has no program %d", binding.program));
    case AcceptStatus::kProgramMismatch:
      return absl::UnimplementedError(absl::StrFormat(
          "version %d of program %d was asked for; the server has only versions %d to %d",
          binding.version, binding.program, reply.low, reply.high));
    case AcceptStatus::kProcedureUnavailable:
      return absl::UnimplementedError(
          absl::StrFormat("the server has no procedure %d in version %d of program %d", procedure,
                          binding.version, binding.program));
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

// RFC 8166 section 6.1: only eligible items may be reduced.
absl::Status Requester::CheckBinding(const CallRequest& request,
                                     const ProcedureBinding& binding) const {
  size_t position = 0;
  size_t largest = 0;
  bool in_order = request.arguments.size() % 4 == 0;
  for (const EligibleItem& item : request.items) {
    in_order &= item.position % 4 == 0 && item.position >= position &&
                item.position <= request.arguments.size();
    position = item.position;
    largest = std::max(largest, item.bytes.size());
  }
  if (!in_order) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: its items are not in order at XDR positions of its arguments",
        request.procedure, binding_->program));
  }
  const uint32_t items =
      binding.max_eligible_argument_bytes > 0 ? binding.max_eligible_arguments : 0;
  const uint32_t buffers = binding.max_eligible_result_bytes > 0 ? binding.max_eligible_results : 0;
  if (request.arguments.size() <= binding.max_argument_bytes &&
      largest <= binding.max_eligible_argument_bytes && request.items.size() <= items &&
      request.item_buffers.size() <= buffers) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "procedure %d of program %#x: %d bytes of arguments, %d items of at most %d bytes, and room "
      "for %d results do not fit its binding (%d, %d of %d, %d)",
      request.procedure, binding_->program, request.arguments.size(), request.items.size(), largest,
      request.item_buffers.size(), binding.max_argument_bytes, items,
      binding.max_eligible_argument_bytes, buffers));
}

absl::StatusOr<Requester::Plan> Requester::MakePlan(const CallRequest& request) const {
  const ProcedureBinding* binding = binding_->Find(request.procedure);
  if (binding == nullptr) {
    return absl::InvalidArgumentError(absl::StrFormat("program %#x has no binding for procedure %d",
                                                      binding_->program, request.procedure));
  }
  if (absl::Status status = CheckBinding(request, *binding); !status.ok()) return status;

  Plan plan;
  size_t header = kMinHeaderBytes;
  // RFC 8166 section 4.3.3: by the maximum possible size of transport header and payload.
  const size_t reply =
      kReplyHeaderBytes + request.max_result_bytes.value_or(binding->max_result_bytes);
  size_t placed = 0;     // results that have a buffer
  size_t in_stream = 0;  // the others
  size_t chunks = 0;
  if (binding->max_eligible_result_bytes > 0) {
    for (size_t i = 0; i < binding->max_eligible_results; ++i) {
      const size_t room = i < request.item_buffers.size() ? request.item_buffers[i].size() : 0;
      placed += XdrRoundUp(room);
      in_stream += room == 0 ? XdrRoundUp(binding->max_eligible_result_bytes) : 0;
    }
    for (const absl::Span<uint8_t>& buffer : request.item_buffers) {
      chunks += buffer.empty() ? kEmptyWriteChunkBytes : kWriteChunkBytes;
    }
  }
  size_t longest = reply + in_stream + placed;
  if (kMinHeaderBytes + longest > thresholds_.server_to_client) {
    plan.write_chunks = placed > 0;
    if (plan.write_chunks) {
      longest -= placed;
      header += chunks;
    }
    plan.reply_chunk = header + longest > thresholds_.server_to_client;
    header += plan.reply_chunk ? kReplyChunkBytes : 0;
  }
  if (plan.reply_chunk && request.reply_buffer.size() < longest) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: the reply can take %d bytes; the reply buffer has %d",
        request.procedure, binding_->program, longest, request.reply_buffer.size()));
  }

  const size_t payload =
      CallHeaderBytes({.credential = config_.credential}) + request.arguments.size();
  size_t items = 0;
  for (const EligibleItem& item : request.items) items += XdrRoundUp(item.bytes.size());
  while (items > 0 && header + payload + items > thresholds_.client_to_server) {
    size_t largest = request.items.size();
    for (size_t i = 0; i < request.items.size(); ++i) {
      if ((plan.read_chunks >> i & 1) != 0) continue;
      if (largest == request.items.size() ||
          request.items[i].bytes.size() > request.items[largest].bytes.size()) {
        largest = i;
      }
    }
    plan.read_chunks |= 1u << largest;
    items -= XdrRoundUp(request.items[largest].bytes.size());
    header += kReadSegmentBytes;
  }
  // RFC 8166 section 3.5.3
  plan.long_call = header + payload + items > thresholds_.client_to_server;
  return plan;
}

absl::Status Requester::Call(const CallRequest& request, CallDone done) {
  if (!down_.ok()) return down_;
  const absl::StatusOr<Plan> plan = MakePlan(request);
  if (!plan.ok()) return plan.status();
  if (free_slots_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%d calls are outstanding or waiting", config_.max_calls));
  }
  Slot& slot = *slots_[free_slots_.back()];
  free_slots_.pop_back();
  slot.state = State::kWaiting;
  slot.request = request;
  slot.plan = *plan;
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

absl::Status Requester::OfferReads(Slot& slot, const Plan& plan, uint32_t buffer,
                                   const CallHeader& call) {
  const CallRequest& request = slot.request;
  const size_t call_bytes = CallHeaderBytes(call);
  Segment segment;
  if (plan.long_call) {
    // The RPC header lies at the end of the send buffer, which the message itself leaves free.
    const absl::Span<uint8_t> rpc = connection_->send_buffer(buffer).last(call_bytes);
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
  size_t before = 0;  // bytes of the items before this one
  for (size_t i = 0; i < request.items.size(); ++i) {
    const EligibleItem& item = request.items[i];
    if ((plan.read_chunks >> i & 1) != 0) {
      absl::Status s = Offer(slot, item.bytes, IBV_ACCESS_REMOTE_READ, &segment);
      if (!s.ok()) return s;
      // RFC 8166 section 3.4.5: in the unreduced stream.
      header_.chunks.AddRead(static_cast<uint32_t>(call_bytes + item.position + before), segment);
    }
    before += XdrRoundUp(item.bytes.size());
  }
  return absl::OkStatus();
}

absl::Status Requester::OfferWrites(Slot& slot, const Plan& plan) {
  const CallRequest& request = slot.request;
  const int writable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  slot.write_chunk_count =
      plan.write_chunks ? static_cast<uint8_t>(request.item_buffers.size()) : 0;
  for (size_t i = 0; i < slot.write_chunk_count; ++i) {
    slot.write_chunks[i] = {};
    if (request.item_buffers[i].empty()) {
      // RFC 8166 section 4.3.2.3
      header_.chunks.AddWriteChunk({});
      continue;
    }
    absl::Status s = Offer(slot, request.item_buffers[i], writable, &slot.write_chunks[i]);
    if (!s.ok()) return s;
    header_.chunks.AddWriteChunk({&slot.write_chunks[i], 1});
  }
  slot.offered_reply = plan.reply_chunk;
  if (!plan.reply_chunk) return absl::OkStatus();
  absl::Status s = Offer(slot, request.reply_buffer, writable, &slot.reply_chunk);
  if (s.ok()) header_.chunks.SetReply({&slot.reply_chunk, 1});
  return s;
}

absl::Status Requester::BuildCall(Slot& slot, uint32_t buffer, size_t* bytes) {
  const CallRequest& request = slot.request;
  const Plan& plan = slot.plan;
  const CallHeader call{.xid = slot.xid,
                        .program = binding_->program,
                        .version = binding_->version,
                        .procedure = request.procedure,
                        .credential = config_.credential};
  header_.xid = slot.xid;
  header_.version = kVersion;
  header_.credits = window_.requested();
  header_.proc = plan.long_call ? Proc::kNomsg : Proc::kMsg;
  header_.chunks.Clear();
  if (absl::Status s = OfferReads(slot, plan, buffer, call); !s.ok()) return s;
  if (absl::Status s = OfferWrites(slot, plan); !s.ok()) return s;

  const absl::Span<uint8_t> out = connection_->send_buffer(buffer);
  *bytes = EmitHeader(header_, out);
  if (plan.long_call) return absl::OkStatus();
  *bytes += EmitCall(call, out.subspan(*bytes));
  XdrWriter rest(out.subspan(*bytes));
  size_t from = 0;
  for (size_t i = 0; i < request.items.size(); ++i) {
    if ((plan.read_chunks >> i & 1) != 0) continue;
    const EligibleItem& item = request.items[i];
    rest.FixedOpaque(request.arguments.subspan(from, item.position - from));
    rest.FixedOpaque(item.bytes);
    from = item.position;
  }
  rest.FixedOpaque(request.arguments.subspan(from));
  *bytes += rest.size();
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
    Finish(*slot, StatusOf(reply.header, *binding_, slot->request.procedure), &reply);
  }
  connection_->Repost(receive);
  SendWaiting();
}

bool Requester::CheckChunks(const Slot& slot, const ChunkLists& chunks) {
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
  if (reply->header.denied || reply->header.accept_status != AcceptStatus::kSuccess) return true;
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
