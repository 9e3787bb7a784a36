// How a call becomes a message, and its memory is offered to the server and taken back.
#include <utility>

#include "rpcrdma/requester/requester.h"

namespace pollux::rpcrdma {

// For this call alone, no more than its memory, and only in the direction in which the call needs
// it: RFC 5042 sections 6.3.3, 6.3.4, 6.3.5, 6.3.6 and 6.4.5.
absl::Status Requester::Offer(Slot& slot, absl::Span<const uint8_t> memory, int access,
                              Segment* segment) {
  // RFC 8797 section 3.2: where the server may invalidate, every key must be one that it may.
  auto region = invalidatable_ ? connection_->RegisterInvalidatable(
                                     memory.data(), static_cast<uint32_t>(memory.size()), access)
                               : connection_->Register(memory.data(), memory.size(), access);
  if (!region.ok()) return region.status();
  slot.regions[slot.region_count++] = *region;
  ++advertised_;
  *segment = {region->key, static_cast<uint32_t>(memory.size()), region->iova};
  return absl::OkStatus();
}

absl::Status Requester::OfferReads(Slot& slot, uint32_t buffer, const oncrpc::CallHeader& call) {
  const CallPlan& plan = slot.plan;
  const oncrpc::CallRequest& request = slot.request;
  const size_t call_bytes = oncrpc::CallHeaderBytes(call);
  Segment segment;
  if (plan.long_call) {
    // The RPC header lies at the end of the send buffer, which the message itself leaves free.
    // What else the buffer holds, of earlier messages, is not offered: RFC 5042 section 6.3.2 and
    // section 10.2.
    const absl::Span<uint8_t> rpc = connection_->send_buffer(buffer).last(call_bytes);
    oncrpc::EmitCall(call, rpc);
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
    const oncrpc::EligibleItem& item = request.items[i];
    if ((plan.read_chunks >> i & 1) != 0) {
      // RFC 8166 sections 3.4.4.4 and 3.4.5.2: one item, without its pad.
      absl::Status s = Offer(slot, item.bytes, IBV_ACCESS_REMOTE_READ, &segment);
      if (!s.ok()) return s;
      // RFC 8166 section 3.4.5: in the unreduced stream.
      header_.chunks.AddRead(static_cast<uint32_t>(call_bytes + item.position + before), segment);
    }
    before += oncrpc::XdrRoundUp(item.bytes.size());
  }
  return absl::OkStatus();
}

absl::Status Requester::OfferWrites(Slot& slot) {
  const CallPlan& plan = slot.plan;
  const oncrpc::CallRequest& request = slot.request;
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

oncrpc::CallHeader Requester::HeaderOf(const Slot& slot) const {
  if (slot.request.header != nullptr) return *slot.request.header;
  return {.xid = slot.xid,
          .program = binding_->program,
          .version = binding_->version,
          .procedure = slot.request.procedure,
          .credential = config_.credential};
}

absl::Status Requester::BuildCall(Slot& slot, uint32_t buffer, size_t* bytes) {
  const oncrpc::CallRequest& request = slot.request;
  const CallPlan& plan = slot.plan;
  const oncrpc::CallHeader call = HeaderOf(slot);
  // RFC 8166 section 4.2.1, and RFC 8167 section 5.1 for the reverse direction: one XID, one
  // version.
  header_.xid = slot.xid;
  header_.version = kVersion;
  header_.credits = window_.requested();
  // RFC 8166 section 4.2.4: a Requester sends nothing else.
  header_.proc = plan.long_call ? Proc::kNomsg : Proc::kMsg;
  header_.chunks.Clear();
  if (absl::Status s = OfferReads(slot, buffer, call); !s.ok()) return s;
  if (absl::Status s = OfferWrites(slot); !s.ok()) return s;

  const absl::Span<uint8_t> out = connection_->send_buffer(buffer);
  *bytes = EmitHeader(header_, out);
  if (plan.long_call) return absl::OkStatus();
  *bytes += oncrpc::EmitCall(call, out.subspan(*bytes));
  oncrpc::XdrWriter rest(out.subspan(*bytes));
  size_t from = 0;
  for (size_t i = 0; i < request.items.size(); ++i) {
    if ((plan.read_chunks >> i & 1) != 0) continue;
    const oncrpc::EligibleItem& item = request.items[i];
    rest.FixedOpaque(request.arguments.subspan(from, item.position - from));
    rest.FixedOpaque(item.bytes);
    from = item.position;
  }
  rest.FixedOpaque(request.arguments.subspan(from));
  *bytes += rest.size();
  return rest.ok() ? absl::OkStatus()
                   : absl::InternalError("the call is larger than its send buffer");
}

void Requester::Fence(Slot& slot) {
  if (slot.region_count == 0 && slot.header_buffer == kNoBuffer) return;  // as of most
  for (uint8_t i = 0; i < slot.region_count; ++i) connection_->Deregister(slot.regions[i]);
  if (!std::exchange(slot.withdrawn, false)) advertised_ -= slot.region_count;
  slot.region_count = 0;
  GiveHeaderBufferBack(slot);
}

// RFC 8797 section 4.1: the reply invalidates what its call has offered, whether or not anybody
// waits for it still.
void Requester::Withdraw(Slot& slot) {
  if (!invalidatable_ || slot.region_count == 0) return Fence(slot);
  for (uint8_t i = 0; i < slot.region_count; ++i) connection_->Invalidate(slot.regions[i]);
  advertised_ -= slot.region_count;
  slot.withdrawn = true;
  GiveHeaderBufferBack(slot);
}

void Requester::GiveHeaderBufferBack(Slot& slot) {
  if (slot.header_buffer != kNoBuffer) ReleaseBuffer(std::exchange(slot.header_buffer, kNoBuffer));
}

}  // namespace pollux::rpcrdma
