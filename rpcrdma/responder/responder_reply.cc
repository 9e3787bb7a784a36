// How a call is answered: what goes into Write chunks, the Reply chunk and the message.
#include <algorithm>
#include <optional>
#include <utility>

#include "oncrpc/xdr.h"
#include "rpcrdma/responder/responder.h"
#include "rpcrdma/wire/plain_message.h"
#include "stack/base/probe.h"

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

// Success under an empty verifier.
bool IsPlain(const oncrpc::ReplyHeader& reply) {
  return !reply.denied && reply.accept_status == oncrpc::AcceptStatus::kSuccess &&
         reply.verifier.flavor == oncrpc::AuthFlavor::kNone && reply.verifier.body.empty();
}

}  // namespace

void Responder::SendError(uint32_t index, ErrorCode code, uint32_t version) {
  Slot& slot = slots_[index];
  if (code == ErrorCode::kChunk) ++service_.counters->chunk_errors_sent;
  // RFC 8797 section 4.1: RPC replies invalidate, errors do not.
  slot.invalidate = 0;
  header_->xid = slot.xid;
  header_->version = version;
  header_->credits = slot.grant;
  header_->proc = Proc::kError;
  header_->error = code;
  header_->version_low = header_->version_high = kVersion;
  slot.reply_bytes =
      static_cast<uint32_t>(EmitHeader(*header_, connection_->send_buffer(BufferOf(index))));
  Finish(index);
}

bool Responder::TakeItems(Slot& slot, absl::Span<ResultItem> items, size_t result_bytes) {
  bool valid = items.size() <= oncrpc::kMaxItems;
  size_t position = 0;
  for (ResultItem& item : items) {
    valid &= item.position >= position && item.position <= result_bytes && item.position % 4 == 0;
    position = item.position;
    if (slot.item_count < oncrpc::kMaxItems) slot.items[slot.item_count++] = std::move(item);
  }
  return valid;
}

void Responder::Reply(uint32_t index, oncrpc::ReplyHeader reply, absl::Span<const uint8_t> results,
                      absl::Span<ResultItem> items) {
  Slot& slot = slots_[index];
  const bool joins = slot.joins;
  --dispatched_;
  reply.xid = slot.xid;
  if (!TakeItems(slot, items, results.size()) ||
      reply.verifier.body.size() > oncrpc::kMaxAuthBytes) {
    ReleaseItems(slot);
    reply = {.xid = slot.xid, .accept_status = oncrpc::AcceptStatus::kSystemError};
    results = {};
  }
  probe::RpcServerEnd(caller_.connection, slot.xid, static_cast<uint32_t>(reply.accept_status));
  std::optional<ReplyCache::Waiter> waiter;
  const uint32_t entry = std::exchange(slot.cached, kNotCached);
  if (entry != kNotCached) {
    waiter = service_.replies->Finish(entry, reply, results, {slot.items, slot.item_count});
  }
  if (aborted_ || connection_->broken()) {
    ++service_.counters->replies_dropped;
    // A connection that is broken but not closed yet still has the slot's memory in its hands.
    slot.state = State::kReplying;
    if (aborted_) Free(index);
  } else {
    SendReply(index, reply, results);
  }
  if (waiter.has_value()) waiter->responder->Replay(waiter->slot, entry);
  if (entry != kNotCached && joins) service_.replies->Forget(entry);
}

[[gnu::always_inline]] inline bool Responder::BuildPlainReply(uint32_t index,
                                                              absl::Span<const uint8_t> results,
                                                              uint8_t* message) {
  Slot& slot = slots_[index];
  const size_t limit = std::min(connection_->config().send_bytes, terms_.reply_threshold);
  slot.reply_bytes =
      static_cast<uint32_t>(EmitPlainReply(slot.xid, slot.grant, results, {message, limit}));
  return slot.reply_bytes > 0;
}

void Responder::ReplyPlainly(uint32_t index, absl::Span<const uint8_t> results) {
  Slot& slot = slots_[index];
  if (slot.has_chunks || slot.cached != kNotCached || aborted_ || connection_->broken())
      [[unlikely]] {
    return Reply(index, {}, results, {});
  }
  --dispatched_;
  probe::RpcServerEnd(caller_.connection, slot.xid, 0);
  uint8_t* const message = SendBufferOf(index);
  if (!BuildPlainReply(index, results, message)) [[unlikely]] {
    // RFC 8166 section 4.5.3
    Count(Refusal::kReplyTooLarge);
    return SendError(index, ErrorCode::kChunk);
  }
  CountReply(slot);
  GiveReceiveBack(slot);
  if (wait_room_.empty() && connection_->MaySend()) [[likely]] {
    slot.state = State::kReplyingPlainly;
    connection_->PostAllowedSend(message, slot.reply_bytes, BufferOf(index),
                                 /*hurried=*/IsShortOfSlots(), /*invalidate=*/0);
    OnPosted();
  } else {
    slot.state = State::kWaitRoom;
    wait_room_.Push(index);
    connection_->wakeup().Wake();
  }
}

void Responder::SendReply(uint32_t index, const oncrpc::ReplyHeader& reply,
                          absl::Span<const uint8_t> results) {
  if (!BuildReply(index, reply, results)) {
    // RFC 8166 section 4.5.3: the Responder sees in time that what was offered is too small.
    Count(Refusal::kReplyTooLarge);
    return SendError(index, ErrorCode::kChunk);
  }
  CountReply(slots_[index]);
  Finish(index);
}

// Each Write chunk takes the next item; an empty one leaves it in the stream, and those that no
// item is left for are returned unused. RFC 8166 sections 4.3.2, 4.3.2.1, 4.3.2.2 and 4.3.2.3
bool Responder::PlaceItems(Slot& slot, ChunkLists& chunks, uint64_t* placed_bytes) {
  bool fits = slot.ahead_fits || slot.item_count == 0;
  for (uint32_t i = 0; i < std::max<uint32_t>(slot.item_count, chunks.write_chunk_count); ++i) {
    const bool has_chunk = i < chunks.write_chunk_count && chunks.write_chunks[i].count > 0;
    const bool has_item = i < slot.item_count;
    // RFC 8166 section 8.2.2.3
    const bool is_placed = has_item && has_chunk && slot.may_reduce;
    if (has_item && !is_placed) slot.in_stream |= 1u << i;
    if (!has_chunk) continue;
    // RFC 8166 section 3.4.6.2: no round-up in a Write chunk.
    const size_t bytes = is_placed ? slot.items[i].bytes.size() : 0;
    const uint64_t ahead_bytes = is_placed && i == 0 ? slot.ahead_bytes : 0;
    fits &= Fill(chunks.SegmentsOf(chunks.write_chunks[i]), ahead_bytes + bytes);
    *placed_bytes += bytes;
  }
  return fits;
}

// With the pads of all items: RFC 8166 section 3.5.3.
size_t Responder::EmitPayload(const Slot& slot, const oncrpc::ReplyHeader& reply,
                              absl::Span<const uint8_t> results, absl::Span<uint8_t> out) {
  const size_t rpc_bytes = oncrpc::EmitReply(reply, out);
  if (rpc_bytes == 0) return 0;
  oncrpc::XdrWriter writer(out.subspan(rpc_bytes));
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

bool Responder::BuildReply(uint32_t index, const oncrpc::ReplyHeader& reply,
                           absl::Span<const uint8_t> results) {
  Slot& slot = slots_[index];
  if (!slot.has_chunks && slot.item_count == 0 && IsPlain(reply)) {
    return BuildPlainReply(index, results, SendBufferOf(index));
  }
  const absl::Span<uint8_t> buffer = connection_->send_buffer(BufferOf(index));
  const size_t limit = std::min<size_t>(buffer.size(), terms_.reply_threshold);
  Header& header = *header_;
  if (slot.has_chunks) {
    size_t call_header_bytes = 0;
    ParseHeader(slot.message, &header, &call_header_bytes);
  } else {
    header.chunks.Clear();
    // RFC 8166 section 4.2.1, and RFC 8167 section 5.2 for the reverse direction.
    header.xid = slot.xid;
    header.version = kVersion;
  }
  header.credits = slot.grant;
  header.proc = Proc::kMsg;
  ChunkLists& chunks = header.chunks;
  // RFC 8166 section 4.3.1
  chunks.read_count = 0;
  uint64_t placed_bytes = 0;
  slot.in_stream = 0;
  if (!PlaceItems(slot, chunks, &placed_bytes)) return false;

  // RFC 8166 section 4.3.3: the message if it fits, else the Reply chunk.
  const size_t header_bytes = HeaderBytes(header);
  if (header_bytes > limit) return false;
  size_t payload =
      EmitPayload(slot, reply, results, buffer.subspan(header_bytes, limit - header_bytes));
  if (payload > 0) {
    if (chunks.has_reply) Fill(chunks.SegmentsOf(chunks.reply), 0);
    slot.reply_bytes = static_cast<uint32_t>(EmitHeader(header, buffer) + payload);
  } else {
    if (slot.long_reply == nullptr) return false;
    const size_t room =
        std::min<size_t>(chunks.BytesOf(chunks.reply), caller_.buffers->pool().buffer_bytes());
    payload = EmitPayload(slot, reply, results, {slot.long_reply, room});
    if (payload == 0 || !Fill(chunks.SegmentsOf(chunks.reply), payload)) return false;
    header.proc = Proc::kNomsg;
    placed_bytes += payload;
    service_.counters->bytes_copied += payload;
    slot.reply_bytes = static_cast<uint32_t>(EmitHeader(header, buffer));
  }
  service_.counters->bytes_written += placed_bytes;
  return true;
}

// The message stands in the send buffer: the call's receive is given back before it goes out, so
// that the credit it carries is true. RFC 8166 section 3.3.1
void Responder::Finish(uint32_t index) {
  GiveReceiveBack(slots_[index]);
  slots_[index].state = State::kWaitRoom;
  if (wait_room_.empty() && TryPost(index)) return;
  wait_room_.Push(index);
  connection_->wakeup().Wake();
}

bool Responder::TryPost(uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.has_chunks) {
    if (!TryPostChunks(index)) return false;
  } else if (connection_->send_room() == 0) {
    return false;
  }
  if (slot.invalidate != 0) ++service_.counters->invalidations_sent;
  // What a plain reply holds until it is done is its slot alone.
  const bool plain = !slot.has_chunks && slot.item_count == 0;
  slot.state = State::kReplying;
  connection_->PostSend(SendBufferOf(index), slot.reply_bytes, BufferOf(index),
                        /*hurried=*/!plain || IsShortOfSlots(), slot.invalidate);
  OnPosted();
  return true;
}

// The WRITEs before the message, if there is room for it too.
bool Responder::TryPostChunks(uint32_t index) {
  Slot& slot = slots_[index];
  size_t header_bytes = 0;
  // What goes where is written in the header that is about to be sent.
  ParseHeader(connection_->send_buffer(BufferOf(index)).first(slot.reply_bytes), header_.get(),
              &header_bytes);
  const ChunkLists& chunks = header_->chunks;
  uint32_t writes = chunks.has_reply ? CountFilled(chunks.SegmentsOf(chunks.reply)) : 0;
  for (size_t i = 0; i < chunks.write_chunk_count; ++i) {
    writes += CountFilled(chunks.SegmentsOf(chunks.write_chunks[i]));
  }
  if (connection_->send_room() < writes + 1 || !RegisterItems(slot, chunks)) return false;
  for (uint32_t i = 0; i < std::min<uint32_t>(chunks.write_chunk_count, slot.item_count); ++i) {
    if (slot.item_regions[i].key == 0) continue;
    const absl::Span<const uint8_t> bytes = slot.items[i].bytes;
    WriteOut(index, {bytes.data(), static_cast<uint32_t>(bytes.size()), slot.item_regions[i].key},
             chunks.SegmentsOf(chunks.write_chunks[i]), i == 0 ? slot.ahead_bytes : 0,
             /*told=*/false);
  }
  if (chunks.has_reply) {
    const auto bytes = static_cast<uint32_t>(chunks.BytesOf(chunks.reply));
    WriteOut(index, {slot.long_reply, bytes, pool_region_.key}, chunks.SegmentsOf(chunks.reply), 0,
             /*told=*/false);
  }
  return true;
}

// What goes into Write chunks. False: no region is left, and the reply waits for one.
bool Responder::RegisterItems(Slot& slot, const ChunkLists& chunks) {
  for (uint32_t i = 0; i < std::min<uint32_t>(chunks.write_chunk_count, slot.item_count); ++i) {
    const absl::Span<const uint8_t> bytes = slot.items[i].bytes;
    const bool is_placed = (slot.in_stream >> i & 1) == 0 && !bytes.empty();
    if (!is_placed || slot.item_regions[i].key != 0) continue;
    auto region = connection_->Register(bytes.data(), bytes.size(), 0);
    if (!region.ok()) {
      if (short_since_ns_ == 0) short_since_ns_ = connection_->worker()->now_ns();
      return false;
    }
    slot.item_regions[i] = *region;
  }
  short_since_ns_ = 0;
  return true;
}

void Responder::WriteOut(uint32_t index, Connection::Local from, absl::Span<const Segment> to,
                         uint64_t at, bool told) {
  for (const Segment& segment : to) {
    if (at >= segment.length) {
      at -= segment.length;
      continue;
    }
    const auto length = static_cast<uint32_t>(std::min<uint64_t>(segment.length - at, from.length));
    if (length == 0) return;
    connection_->PostWrite({from.address, length, from.lkey}, segment.offset + at, segment.handle,
                           BufferOf(index), told && length == from.length);
    from.address += length;
    from.length -= length;
    at = 0;
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

uint64_t ReplyHandle::PieceRoom() {
  return responder_ != nullptr ? responder_->PieceRoom(slot_) : 0;
}

bool ReplyHandle::CanWrite() const { return responder_ != nullptr && responder_->CanWritePiece(); }

bool ReplyHandle::client_is_gone() const {
  return responder_ != nullptr && responder_->client_is_gone();
}

void ReplyHandle::Write(ResultPiece piece) {
  if (responder_ != nullptr) return responder_->WritePiece(slot_, std::move(piece));
  if (piece.release) piece.release();
}

void ReplyHandle::CountCopied(uint64_t bytes) {
  if (responder_ != nullptr) responder_->CountCopied(bytes);
}

void ReplyHandle::Send(absl::Span<const uint8_t> results, absl::Span<ResultItem> items) {
  if (responder_ == nullptr) return;
  Responder* const responder = std::exchange(responder_, nullptr);
  if (items.empty()) [[likely]]
    return responder->ReplyPlainly(slot_, results);
  responder->Reply(slot_, {}, results, items);
}

void ReplyHandle::Send(const oncrpc::ReplyHeader& reply, absl::Span<const uint8_t> results,
                       absl::Span<ResultItem> items) {
  if (responder_ == nullptr) return;
  std::exchange(responder_, nullptr)->Reply(slot_, reply, results, items);
}

void ReplyHandle::Fail(oncrpc::AcceptStatus status) {
  if (responder_ == nullptr) return;
  std::exchange(responder_, nullptr)->Reply(slot_, {.accept_status = status}, {}, {});
}

}  // namespace pollux::rpcrdma
