#include "rpcrdma/responder.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "rpcrdma/credits.h"

namespace pollux::rpcrdma {
namespace {

// Spreads `bytes` over the segments, in order; what is left of them becomes 0. False when they
// cannot hold it. RFC 8166 section 3.4.6
bool Fill(absl::Span<Segment> segments, uint64_t bytes) {
  for (Segment& segment : segments) {
    segment.length = static_cast<uint32_t>(std::min<uint64_t>(segment.length, bytes));
    bytes -= segment.length;
  }
  return bytes == 0;
}

uint32_t CountFilled(absl::Span<const Segment> segments) {
  uint32_t count = 0;
  for (const Segment& segment : segments) count += segment.length > 0 ? 1 : 0;
  return count;
}

}  // namespace

absl::Status ProgramTable::Add(Program program) {
  if (absl::Status status = program.binding.Validate(); !status.ok()) return status;
  for (const Program& other : programs_) {
    if (other.binding.program == program.binding.program &&
        other.binding.version == program.binding.version) {
      return absl::AlreadyExistsError(
          absl::StrFormat("program %#x version %d is registered already", program.binding.program,
                          program.binding.version));
    }
  }
  for (const Procedure& procedure : program.procedures) {
    // RFC 8166 section 6
    if (program.binding.Find(procedure.number) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrFormat("program %#x: procedure %d has a handler but no binding",
                          program.binding.program, procedure.number));
    }
  }
  programs_.push_back(std::move(program));
  return absl::OkStatus();
}

ProgramTable::Found ProgramTable::Find(uint32_t program, uint32_t version, uint32_t procedure) {
  Found found{.status = AcceptStatus::kProgramUnavailable};
  for (Program& candidate : programs_) {
    const ProgramBinding& binding = candidate.binding;
    if (binding.program != program) continue;
    found.low = found.status == AcceptStatus::kProgramUnavailable
                    ? binding.version
                    : std::min(found.low, binding.version);
    found.high = std::max(found.high, binding.version);
    found.status = AcceptStatus::kProgramMismatch;
    if (binding.version != version) continue;
    for (Procedure& entry : candidate.procedures) {
      if (entry.number != procedure) continue;
      return {.status = AcceptStatus::kSuccess,
              .binding = binding.Find(procedure),
              .handler = &entry.handler};
    }
    return {.status = AcceptStatus::kProcedureUnavailable};
  }
  return found;
}

Responder::Responder(Connection* connection, ProgramTable* programs, BufferPool* pool,
                     uint32_t credits, Counters* counters)
    : connection_(connection),
      programs_(programs),
      pool_(pool),
      credits_(credits),
      counters_(counters),
      header_(std::make_unique<Header>()),
      reduced_(new ReducedItem[size_t{connection->config().send_buffers} * kMaxItems]),
      items_(new ResultItem[size_t{connection->config().send_buffers} * kMaxItems]),
      item_regions_(
          new memory::MemoryRegion[size_t{connection->config().send_buffers} * kMaxItems]),
      slots_(connection->config().send_buffers),
      backlog_(connection->config().receives),
      wait_buffers_(slots_.size()),
      wait_room_(slots_.size()) {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    slots_[i].reduced = &reduced_[size_t{i} * kMaxItems];
    slots_[i].items = &items_[size_t{i} * kMaxItems];
    slots_[i].item_regions = &item_regions_[size_t{i} * kMaxItems];
    free_slots_.push_back(i);
  }
}

Responder::~Responder() {
  Abort();
  if (pool_region_.key != 0) connection_->Deregister(pool_region_);
}

absl::Status Responder::Init() {
  auto region =
      connection_->Register(pool_->memory().data(), pool_->memory().size(), IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  pool_region_ = *region;
  return absl::OkStatus();
}

void Responder::OnPosted() {
  if (in_flight_++ == 0) progress_ns_ = connection_->worker()->now_ns();
}

bool Responder::Stalls() const {
  return in_flight_ > 0 && connection_->worker()->now_ns() - progress_ns_ > kStallNs;
}

bool Responder::Poll() {
  bool moved = false;
  if (Stalls() && !connection_->broken()) {
    ++counters_->connections_stalled;
    connection_->MarkBroken();
  }
  while (!wait_room_.empty() && !connection_->broken() && TryPost(wait_room_.front())) {
    wait_room_.Pop();
    moved = true;
  }
  while (!wait_buffers_.empty() && !connection_->broken() && TryPull(wait_buffers_.front())) {
    wait_buffers_.Pop();
    moved = true;
  }
  while (!backlog_.empty() && !free_slots_.empty() && !connection_->broken()) {
    Accept(backlog_.Pop());
    moved = true;
  }
  return moved;
}

void Responder::Abort() {
  aborted_ = true;
  backlog_.Clear();
  wait_buffers_.Clear();
  wait_room_.Clear();
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != State::kFree && slots_[i].state != State::kDispatched) Free(i);
  }
}

void Responder::OnMessage(uint32_t receive, absl::Span<const uint8_t> message) {
  const Waiting waiting{receive, message};
  if (free_slots_.empty() || !backlog_.empty()) {
    backlog_.Push(waiting);
  } else {
    Accept(waiting);
  }
}

void Responder::Discard(const Waiting& waiting, uint64_t& counter) {
  ++counter;
  connection_->Repost(waiting.receive);
}

void Responder::Accept(const Waiting& waiting) {
  size_t header_bytes = 0;
  Header& header = *header_;
  const HeaderStatus status = ParseHeader(waiting.message, &header, &header_bytes);
  // RFC 8166 section 4.5
  if (status == HeaderStatus::kTooShort || waiting.message.size() < kMinHeaderBytes) {
    return Discard(waiting, counters_->short_messages);
  }
  // RFC 8166 section 4.2.4 and section 4.6.2
  if (status != HeaderStatus::kBadVersion && header.proc == Proc::kError) {
    return Discard(waiting, counters_->unwanted_errors);
  }
  if (status == HeaderStatus::kOk && header.proc == Proc::kDone) {
    return Discard(waiting, counters_->obsolete_messages);
  }

  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.state = State::kWaitBuffers;
  slot.has_receive = true;
  slot.receive = waiting.receive;
  slot.message = waiting.message;
  slot.payload_offset = header_bytes;
  slot.xid = header.xid;
  slot.grant = Grant(header.credits, credits_);
  // RFC 8166 section 4.5.1
  if (status == HeaderStatus::kBadVersion) {
    return SendError(index, ErrorCode::kVersion, header.version);
  }
  // RFC 8166 section 4.5.2 and section 4.6.1
  if (status == HeaderStatus::kMalformed || header.proc == Proc::kMsgp ||
      !MakePullPlan(header.chunks.read_list(), header.proc, pool_->buffer_bytes(), &plan_)) {
    return SendError(index, ErrorCode::kChunk);
  }
  ++counters_->calls_received;
  if (header.chunks.read_count == 0 && !header.chunks.has_reply) return Dispatch(index);
  // What will be refused is not pulled.
  CallView call;
  if (header.proc == Proc::kMsg &&
      Examine(index, waiting.message.subspan(header_bytes), &call) == nullptr) {
    return;
  }
  if (!wait_buffers_.empty() || !TryPull(index)) wait_buffers_.Push(index);
}

bool Responder::Plan(const Slot& slot) {
  size_t header_bytes = 0;
  ParseHeader(slot.message, header_.get(), &header_bytes);
  return MakePullPlan(header_->chunks.read_list(), header_->proc, pool_->buffer_bytes(), &plan_);
}

bool Responder::TryPull(uint32_t index) {
  Slot& slot = slots_[index];
  Plan(slot);
  const ChunkLists& chunks = header_->chunks;
  uint32_t last = chunks.read_count;
  for (uint32_t i = 0; i < chunks.read_count; ++i) {
    if (chunks.reads[i].target.length > 0) last = i;
  }
  const bool reads = last < chunks.read_count;
  if (pool_->available() < (reads ? 1u : 0u) + (chunks.has_reply ? 1u : 0u)) return false;
  if (connection_->send_room() < chunks.read_count) return false;
  if (chunks.has_reply) slot.long_reply = pool_->Take();
  if (!reads) {
    Dispatch(index);
    return true;
  }

  slot.state = State::kPulling;
  slot.pulled = pool_->Take();
  counters_->bytes_read += plan_.Bytes();
  uint32_t payload_at = 0;
  for (uint32_t i = 0; i < chunks.read_count; ++i) {
    const Segment& target = chunks.reads[i].target;
    if (target.length == 0) continue;
    // RFC 8166 section 3.4.5: segments of one chunk are concatenated in list order. The plan is
    // used up: its items' places move on.
    uint32_t& at =
        chunks.reads[i].position == 0 ? payload_at : plan_.Find(chunks.reads[i].position)->at;
    connection_->PostRead({slot.pulled + at, target.length, pool_region_.key}, target.offset,
                          target.handle, i == last ? &index : nullptr);
    at += target.length;
  }
  OnPosted();
  return true;
}

void Responder::OnSent(uint32_t cookie) {
  --in_flight_;
  progress_ns_ = connection_->worker()->now_ns();
  if (slots_[cookie].state == State::kPulling) {
    Plan(slots_[cookie]);
    Dispatch(cookie);
  } else {
    Free(cookie);
  }
}

bool Responder::CheckEligible(size_t rpc_bytes, const ProcedureBinding& binding) const {
  if (plan_.item_count == 0) return true;
  if (binding.max_eligible_argument_bytes == 0 ||
      plan_.item_count > binding.max_eligible_arguments) {
    return false;
  }
  for (const PulledItem& item : plan_.all()) {
    if (item.position < rpc_bytes || item.bytes > XdrRoundUp(binding.max_eligible_argument_bytes)) {
      return false;
    }
  }
  return true;
}

absl::Span<const ReducedItem> Responder::Items(const Slot& slot, size_t rpc_bytes) const {
  for (uint32_t i = 0; i < plan_.item_count; ++i) {
    const PulledItem& item = plan_.items[i];
    // Nothing was pulled when all items are empty.
    const uint8_t* bytes = slot.pulled == nullptr ? nullptr : slot.pulled + item.at;
    slot.reduced[i] = {.bytes = {bytes, item.bytes}, .position = item.position - rpc_bytes};
  }
  return {slot.reduced, plan_.item_count};
}

Handler* Responder::Examine(uint32_t index, absl::Span<const uint8_t> payload, CallView* call) {
  const Slot& slot = slots_[index];
  const size_t rpc_bytes = ParseCall(payload, &call->header);
  // RFC 8166 section 4.2.1 and section 4.5.2
  if (rpc_bytes == 0 || call->header.xid != slot.xid) {
    SendError(index, ErrorCode::kChunk);
    return nullptr;
  }
  if (call->header.rpc_version != kRpcVersion) {
    ++counters_->calls_refused;
    SendReply(index, {.xid = slot.xid, .denied = true, .low = kRpcVersion, .high = kRpcVersion},
              {});
    return nullptr;
  }
  const ProgramTable::Found found =
      programs_->Find(call->header.program, call->header.version, call->header.procedure);
  if (found.status != AcceptStatus::kSuccess) {
    ++counters_->calls_refused;
    SendReply(
        index,
        {.xid = slot.xid, .accept_status = found.status, .low = found.low, .high = found.high}, {});
    return nullptr;
  }
  // RFC 8166 section 6.1
  if (!CheckEligible(rpc_bytes, *found.binding)) {
    ++counters_->eligibility_violations;
    SendError(index, ErrorCode::kChunk);
    return nullptr;
  }
  call->arguments = payload.subspan(rpc_bytes);
  call->items = Items(slot, rpc_bytes);
  return found.handler;
}

void Responder::Dispatch(uint32_t index) {
  Slot& slot = slots_[index];
  CallView call;
  const absl::Span<const uint8_t> payload =
      plan_.payload_bytes > 0 ? absl::MakeConstSpan(slot.pulled, plan_.payload_bytes)
                              : slot.message.subspan(slot.payload_offset);
  Handler* handler = Examine(index, payload, &call);
  if (handler == nullptr) return;
  slot.state = State::kDispatched;
  ++dispatched_;
  (*handler)(call, ReplyHandle(this, index));
}

void Responder::SendError(uint32_t index, ErrorCode code, uint32_t version) {
  Slot& slot = slots_[index];
  ++(code == ErrorCode::kVersion ? counters_->version_errors_sent : counters_->chunk_errors_sent);
  header_->xid = slot.xid;
  header_->version = version;
  header_->credits = slot.grant;
  header_->proc = Proc::kError;
  header_->error = code;
  header_->version_low = header_->version_high = kVersion;
  slot.reply_bytes = static_cast<uint32_t>(EmitHeader(*header_, connection_->send_buffer(index)));
  Finish(index);
}

void Responder::Answer(uint32_t index, AcceptStatus status, absl::Span<const uint8_t> results,
                       absl::Span<ResultItem> items) {
  Slot& slot = slots_[index];
  --dispatched_;
  bool valid = items.size() <= kMaxItems;
  size_t position = 0;
  for (ResultItem& item : items) {
    valid &= item.position >= position && item.position <= results.size() && item.position % 4 == 0;
    position = item.position;
    if (slot.item_count < kMaxItems) slot.items[slot.item_count++] = std::move(item);
  }
  if (aborted_ || connection_->broken()) {
    ++counters_->replies_dropped;
    // A connection that is broken but not closed yet still has the slot's memory in its hands.
    slot.state = State::kReplying;
    if (aborted_) Free(index);
    return;
  }
  if (!valid) {
    ReleaseItems(slot);
    return SendReply(index, {.xid = slot.xid, .accept_status = AcceptStatus::kSystemError}, {});
  }
  SendReply(index, {.xid = slot.xid, .accept_status = status}, results);
}

void Responder::SendReply(uint32_t index, const ReplyHeader& reply,
                          absl::Span<const uint8_t> results) {
  if (!BuildReply(index, reply, results)) {
    // RFC 8166 section 4.5.3: the Responder sees in time that what was offered is too small.
    ++counters_->replies_too_large;
    return SendError(index, ErrorCode::kChunk);
  }
  ++counters_->replies_sent;
  Finish(index);
}

// Each Write chunk takes the next item; an empty one leaves it in the stream, and those that no
// item is left for are returned unused. RFC 8166 sections 4.3.2.1, 4.3.2.2 and 4.3.2.3
bool Responder::PlaceItems(Slot& slot, ChunkLists& chunks) {
  bool fits = true;
  slot.in_stream = 0;
  for (uint32_t i = 0; i < std::max<uint32_t>(slot.item_count, chunks.write_chunk_count); ++i) {
    const bool has_chunk = i < chunks.write_chunk_count && chunks.write_chunks[i].count > 0;
    const bool has_item = i < slot.item_count;
    if (has_item && !has_chunk) slot.in_stream |= 1u << i;
    if (!has_chunk) continue;
    // RFC 8166 section 3.4.6.2: no round-up in a Write chunk.
    const size_t bytes = has_item ? slot.items[i].bytes.size() : 0;
    fits &= Fill(chunks.SegmentsOf(chunks.write_chunks[i]), bytes);
    if (bytes == 0 || !fits) continue;
    auto region = connection_->Register(slot.items[i].bytes.data(), bytes, 0);
    if (!region.ok()) return false;
    slot.item_regions[i] = *region;
    counters_->bytes_written += bytes;
  }
  return fits;
}

size_t Responder::EmitPayload(const Slot& slot, const ReplyHeader& reply,
                              absl::Span<const uint8_t> results, absl::Span<uint8_t> out) {
  const size_t rpc_bytes = EmitReply(reply, out);
  if (rpc_bytes == 0) return 0;
  XdrWriter writer(out.subspan(rpc_bytes));
  size_t from = 0;
  for (uint32_t i = 0; i < slot.item_count; ++i) {
    if ((slot.in_stream >> i & 1) == 0) continue;
    const ResultItem& item = slot.items[i];
    writer.FixedOpaque(results.subspan(from, item.position - from));
    writer.FixedOpaque(item.bytes);
    from = item.position;
  }
  writer.FixedOpaque(results.subspan(from));
  return writer.ok() ? rpc_bytes + writer.size() : 0;
}

bool Responder::BuildReply(uint32_t index, const ReplyHeader& reply,
                           absl::Span<const uint8_t> results) {
  Slot& slot = slots_[index];
  size_t call_header_bytes = 0;
  Header& header = *header_;
  ParseHeader(slot.message, &header, &call_header_bytes);
  header.credits = slot.grant;
  header.proc = Proc::kMsg;
  ChunkLists& chunks = header.chunks;
  // RFC 8166 section 4.3.1
  chunks.read_count = 0;
  if (!PlaceItems(slot, chunks)) return false;

  // RFC 8166 section 4.3.3: the message if it fits, else the Reply chunk.
  const size_t reply_chunk_bytes = chunks.has_reply ? chunks.BytesOf(chunks.reply) : 0;
  const absl::Span<uint8_t> buffer = connection_->send_buffer(index);
  const size_t limit = std::min<size_t>(buffer.size(), reply_threshold_);
  const size_t header_bytes = HeaderBytes(header);
  if (header_bytes > limit) return false;
  size_t payload =
      EmitPayload(slot, reply, results, buffer.subspan(header_bytes, limit - header_bytes));
  if (payload > 0) {
    if (chunks.has_reply) Fill(chunks.SegmentsOf(chunks.reply), 0);
    slot.reply_bytes = static_cast<uint32_t>(EmitHeader(header, buffer) + payload);
    return true;
  }
  if (slot.long_reply == nullptr) return false;
  const size_t room = std::min<size_t>(reply_chunk_bytes, pool_->buffer_bytes());
  payload = EmitPayload(slot, reply, results, {slot.long_reply, room});
  if (payload == 0 || !Fill(chunks.SegmentsOf(chunks.reply), payload)) return false;
  header.proc = Proc::kNomsg;
  counters_->bytes_written += payload;
  slot.reply_bytes = static_cast<uint32_t>(EmitHeader(header, buffer));
  return true;
}

// The message stands in the send buffer: the call's receive is given back before it goes out, so
// that the credit it carries is true. RFC 8166 section 3.3.1
void Responder::Finish(uint32_t index) {
  GiveReceiveBack(slots_[index]);
  slots_[index].state = State::kWaitRoom;
  if (!wait_room_.empty() || !TryPost(index)) wait_room_.Push(index);
}

void Responder::GiveReceiveBack(Slot& slot) {
  if (slot.has_receive) connection_->Repost(slot.receive);
  slot.has_receive = false;
}

bool Responder::TryPost(uint32_t index) {
  Slot& slot = slots_[index];
  size_t header_bytes = 0;
  // What goes where is written in the header that is about to be sent.
  ParseHeader(connection_->send_buffer(index).first(slot.reply_bytes), header_.get(),
              &header_bytes);
  const ChunkLists& chunks = header_->chunks;
  uint32_t writes = chunks.has_reply ? CountFilled(chunks.SegmentsOf(chunks.reply)) : 0;
  for (size_t i = 0; i < chunks.write_chunk_count; ++i) {
    writes += CountFilled(chunks.SegmentsOf(chunks.write_chunks[i]));
  }
  if (connection_->send_room() < writes + 1) return false;
  slot.state = State::kReplying;
  for (uint32_t i = 0; i < std::min<uint32_t>(chunks.write_chunk_count, slot.item_count); ++i) {
    if (slot.item_regions[i].key == 0) continue;
    WriteOut(slot.items[i].bytes.data(), slot.item_regions[i].key,
             chunks.SegmentsOf(chunks.write_chunks[i]));
  }
  if (chunks.has_reply) {
    WriteOut(slot.long_reply, pool_region_.key, chunks.SegmentsOf(chunks.reply));
  }
  connection_->PostSend(index, slot.reply_bytes, index);
  OnPosted();
  return true;
}

void Responder::WriteOut(const uint8_t* from, uint32_t lkey, absl::Span<const Segment> to) {
  for (const Segment& segment : to) {
    if (segment.length == 0) continue;
    connection_->PostWrite({from, segment.length, lkey}, segment.offset, segment.handle);
    from += segment.length;
  }
}

void Responder::ReleaseItems(Slot& slot) {
  // A release may call anything: the slot is done with its items first.
  for (uint32_t i = 0, count = std::exchange(slot.item_count, 0); i < count; ++i) {
    if (slot.item_regions[i].key != 0) connection_->Deregister(slot.item_regions[i]);
    slot.item_regions[i] = {};
    ResultItem item = std::exchange(slot.items[i], {});
    if (item.release) item.release();
  }
}

void Responder::Free(uint32_t index) {
  Slot& slot = slots_[index];
  GiveReceiveBack(slot);
  if (slot.pulled != nullptr) pool_->Give(std::exchange(slot.pulled, nullptr));
  if (slot.long_reply != nullptr) pool_->Give(std::exchange(slot.long_reply, nullptr));
  slot.state = State::kFree;
  ReleaseItems(slot);
  free_slots_.push_back(index);
}

ReplyHandle::~ReplyHandle() {
  if (responder_ != nullptr) Fail(AcceptStatus::kSystemError);
}

void ReplyHandle::Send(absl::Span<const uint8_t> results, absl::Span<ResultItem> items) {
  if (responder_ == nullptr) return;
  std::exchange(responder_, nullptr)->Answer(slot_, AcceptStatus::kSuccess, results, items);
}

void ReplyHandle::Fail(AcceptStatus status) {
  if (responder_ == nullptr) return;
  std::exchange(responder_, nullptr)->Answer(slot_, status, {}, {});
}

}  // namespace pollux::rpcrdma
