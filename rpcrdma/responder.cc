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
      slots_(connection->config().send_buffers),
      backlog_(connection->config().receives),
      wait_buffers_(slots_.size()),
      wait_room_(slots_.size()) {
  for (uint32_t i = 0; i < slots_.size(); ++i) free_slots_.push_back(i);
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
  slot = Slot{};
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
      !CheckChunks(slot, header, pool_->buffer_bytes())) {
    return SendError(index, ErrorCode::kChunk);
  }
  ++counters_->calls_received;
  if (header.chunks.read_count == 0 && !header.chunks.has_reply) return Dispatch(index);
  if (!wait_buffers_.empty() || !TryPull(index)) wait_buffers_.Push(index);
}

// One position-zero chunk of a long call, and one Read chunk beside it, together no larger than a
// pool buffer.
bool Responder::CheckChunks(Slot& slot, const Header& header, uint32_t room) {
  uint64_t payload = 0;
  uint64_t item = 0;
  bool has_payload = false;
  for (const ReadSegment& read : header.chunks.read_list()) {
    if (read.position == 0) {
      has_payload = true;
      payload += read.target.length;
    } else {
      if (slot.has_item && read.position != slot.item_position) return false;
      slot.has_item = true;
      slot.item_position = read.position;
      item += read.target.length;
    }
  }
  // RFC 8166 section 3.5.3
  if (has_payload != (header.proc == Proc::kNomsg)) return false;
  if (XdrRoundUp(payload) + item > room) return false;
  slot.payload_bytes = static_cast<uint32_t>(payload);
  slot.item_bytes = static_cast<uint32_t>(item);
  return true;
}

bool Responder::TryPull(uint32_t index) {
  Slot& slot = slots_[index];
  size_t header_bytes = 0;
  ParseHeader(slot.message, header_.get(), &header_bytes);
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
  uint8_t* payload = slot.pulled;
  uint8_t* item = slot.pulled + XdrRoundUp(slot.payload_bytes);
  for (uint32_t i = 0; i < chunks.read_count; ++i) {
    const Segment& target = chunks.reads[i].target;
    if (target.length == 0) continue;
    // RFC 8166 section 3.4.5: segments of one chunk are concatenated in list order.
    uint8_t*& to = chunks.reads[i].position == 0 ? payload : item;
    connection_->PostRead({to, target.length, pool_region_.key}, target.offset, target.handle,
                          i == last ? &index : nullptr);
    to += target.length;
  }
  OnPosted();
  counters_->bytes_read += slot.payload_bytes + slot.item_bytes;
  return true;
}

void Responder::OnSent(uint32_t cookie) {
  --in_flight_;
  progress_ns_ = connection_->worker()->now_ns();
  if (slots_[cookie].state == State::kPulling) {
    Dispatch(cookie);
  } else {
    Free(cookie);
  }
}

absl::Span<const uint8_t> Responder::Payload(const Slot& slot) {
  if (slot.payload_bytes > 0) return {slot.pulled, slot.payload_bytes};
  return slot.message.subspan(slot.payload_offset);
}

bool Responder::CheckEligible(const Slot& slot, const ProcedureBinding& binding) {
  return !slot.has_item ||
         (slot.item_position >= slot.argument_offset && binding.max_eligible_argument_bytes > 0 &&
          slot.item_bytes <= XdrRoundUp(binding.max_eligible_argument_bytes));
}

void Responder::Dispatch(uint32_t index) {
  Slot& slot = slots_[index];
  CallView call;
  const absl::Span<const uint8_t> payload = Payload(slot);
  const size_t rpc_bytes = ParseCall(payload, &call.header);
  // RFC 8166 section 4.2.1 and section 4.5.2
  if (rpc_bytes == 0 || call.header.xid != slot.xid) return SendError(index, ErrorCode::kChunk);
  if (call.header.rpc_version != kRpcVersion) {
    ++counters_->calls_refused;
    return SendReply(
        index, {.xid = slot.xid, .denied = true, .low = kRpcVersion, .high = kRpcVersion}, {});
  }
  const ProgramTable::Found found =
      programs_->Find(call.header.program, call.header.version, call.header.procedure);
  if (found.status != AcceptStatus::kSuccess) {
    ++counters_->calls_refused;
    return SendReply(
        index,
        {.xid = slot.xid, .accept_status = found.status, .low = found.low, .high = found.high}, {});
  }
  slot.argument_offset = static_cast<uint32_t>(rpc_bytes);
  // RFC 8166 section 6.1
  if (!CheckEligible(slot, *found.binding)) {
    ++counters_->eligibility_violations;
    return SendError(index, ErrorCode::kChunk);
  }
  call.arguments = payload.subspan(rpc_bytes);
  if (slot.has_item) {
    const uint8_t* item =
        slot.pulled == nullptr ? nullptr : slot.pulled + XdrRoundUp(slot.payload_bytes);
    call.item = ReducedItem{{item, slot.item_bytes}, slot.item_position - rpc_bytes};
  }
  slot.state = State::kDispatched;
  ++dispatched_;
  (*found.handler)(call, ReplyHandle(this, index));
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
                       std::optional<ResultItem> item) {
  Slot& slot = slots_[index];
  --dispatched_;
  slot.item = std::move(item);
  if (aborted_ || connection_->broken()) {
    ++counters_->replies_dropped;
    // A connection that is broken but not closed yet still has the slot's memory in its hands.
    slot.state = State::kReplying;
    if (aborted_) Free(index);
    return;
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

// Puts the item's length into the first Write chunk that has room for anything; others are returned
// unused. RFC 8166 sections 4.3.2.1, 4.3.2.2 and 4.3.2.3
bool Responder::PlaceItem(Slot& slot, ChunkLists& chunks, bool* item_inline) {
  bool placed = !slot.item.has_value();
  bool fits = true;
  for (size_t i = 0; i < chunks.write_chunk_count; ++i) {
    const bool takes = !placed && chunks.write_chunks[i].count > 0;
    // RFC 8166 section 3.4.6.2: no round-up in a Write chunk.
    fits &= Fill(chunks.SegmentsOf(chunks.write_chunks[i]), takes ? slot.item->bytes.size() : 0);
    placed |= takes;
  }
  *item_inline = !placed;
  if (!fits || *item_inline || !slot.item.has_value() || slot.item->bytes.empty()) return fits;
  auto region = connection_->Register(slot.item->bytes.data(), slot.item->bytes.size(), 0);
  if (!region.ok()) return false;
  slot.item_region = *region;
  counters_->bytes_written += slot.item->bytes.size();
  return true;
}

size_t Responder::EmitPayload(const Slot& slot, const ReplyHeader& reply, bool item_inline,
                              absl::Span<const uint8_t> results, absl::Span<uint8_t> out) {
  const size_t rpc_bytes = EmitReply(reply, out);
  if (rpc_bytes == 0) return 0;
  XdrWriter writer(out.subspan(rpc_bytes));
  if (item_inline) {
    const size_t position = std::min(slot.item->position, results.size());
    writer.FixedOpaque(results.first(position));
    writer.FixedOpaque(slot.item->bytes);
    writer.FixedOpaque(results.subspan(position));
  } else {
    writer.FixedOpaque(results);
  }
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
  bool item_inline = false;
  if (!PlaceItem(slot, chunks, &item_inline)) return false;

  // RFC 8166 section 4.3.3: the message if it fits, else the Reply chunk.
  const size_t reply_chunk_bytes = chunks.has_reply ? chunks.BytesOf(chunks.reply) : 0;
  const absl::Span<uint8_t> buffer = connection_->send_buffer(index);
  const size_t limit = std::min<size_t>(buffer.size(), reply_threshold_);
  const size_t header_bytes = HeaderBytes(header);
  if (header_bytes > limit) return false;
  size_t payload = EmitPayload(slot, reply, item_inline, results,
                               buffer.subspan(header_bytes, limit - header_bytes));
  if (payload > 0) {
    if (chunks.has_reply) Fill(chunks.SegmentsOf(chunks.reply), 0);
    slot.reply_bytes = static_cast<uint32_t>(EmitHeader(header, buffer) + payload);
    return true;
  }
  if (slot.long_reply == nullptr) return false;
  const size_t room = std::min<size_t>(reply_chunk_bytes, pool_->buffer_bytes());
  payload = EmitPayload(slot, reply, item_inline, results, {slot.long_reply, room});
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
  for (size_t i = 0; i < chunks.write_chunk_count && slot.item_region.key != 0; ++i) {
    WriteOut(slot.item->bytes.data(), slot.item_region.key,
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

void Responder::Free(uint32_t index) {
  Slot& slot = slots_[index];
  GiveReceiveBack(slot);
  if (slot.item_region.key != 0) connection_->Deregister(slot.item_region);
  if (slot.pulled != nullptr) pool_->Give(slot.pulled);
  if (slot.long_reply != nullptr) pool_->Give(slot.long_reply);
  std::optional<ResultItem> item = std::move(slot.item);
  slot = Slot{};
  free_slots_.push_back(index);
  if (item.has_value() && item->release) item->release();
}

ReplyHandle::~ReplyHandle() {
  if (responder_ != nullptr) Fail(AcceptStatus::kSystemError);
}

void ReplyHandle::Send(absl::Span<const uint8_t> results, std::optional<ResultItem> item) {
  if (responder_ == nullptr) return;
  std::exchange(responder_, nullptr)
      ->Answer(slot_, AcceptStatus::kSuccess, results, std::move(item));
}

void ReplyHandle::Fail(AcceptStatus status) {
  if (responder_ == nullptr) return;
  std::exchange(responder_, nullptr)->Answer(slot_, status, {}, std::nullopt);
}

}  // namespace pollux::rpcrdma
