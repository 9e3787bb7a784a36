#include "rpcrdma/responder/responder.h"

#include <algorithm>
#include <utility>

#include "oncrpc/xdr.h"
#include "rpcrdma/wire/credits.h"
#include "stack/base/byte_order.h"
#include "stack/base/planted_fault.h"
#include "stack/base/probe.h"

namespace pollux::rpcrdma {

Responder::Responder(Connection* connection, const ServiceState& service, const Caller& caller,
                     SendBuffers buffers)
    : connection_(connection),
      service_(service),
      caller_(caller),
      buffers_(buffers),
      stall_timer_(&Responder::OnStallTimer, this),
      header_(std::make_unique<Header>()),
      reduced_(new oncrpc::ReducedItem[size_t{buffers.count} * oncrpc::kMaxItems]),
      items_(new ResultItem[size_t{buffers.count} * oncrpc::kMaxItems]),
      item_regions_(new memory::MemoryRegion[size_t{buffers.count} * oncrpc::kMaxItems]),
      slots_(buffers.count),
      backlog_(connection->config().receives),
      wait_buffers_(slots_.size()),
      wait_room_(slots_.size()),
      pieces_(kMaxPieces) {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    slots_[i].reduced = &reduced_[size_t{i} * oncrpc::kMaxItems];
    slots_[i].items = &items_[size_t{i} * oncrpc::kMaxItems];
    slots_[i].item_regions = &item_regions_[size_t{i} * oncrpc::kMaxItems];
  }
  free_slots_.Fill(0, buffers.count);
}

Responder::~Responder() {
  Abort();
  if (pool_region_.key != 0) connection_->Deregister(pool_region_);
}

absl::Status Responder::Init() {
  if (caller_.buffers == nullptr) return absl::OkStatus();
  const absl::Span<uint8_t> memory = caller_.buffers->pool().memory();
  auto region = connection_->Register(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  pool_region_ = *region;
  return absl::OkStatus();
}

void Responder::OnStallTimer(void* responder, uint64_t now_ns) {
  auto& self = *static_cast<Responder*>(responder);
  if (self.in_flight_ == 0) return;
  // From then on HasWork() keeps it awake.
  const bool is_stalled = self.MayBeStalled();
  if (is_stalled) self.connection_->wakeup().Wake();
  self.connection_->worker()->wheel().Arm(
      self.stall_timer_, (is_stalled ? now_ns : self.progress_ns_) + kWantedStallNs + 1);
}

void Responder::WatchStall() {
  const uint64_t now_ns = connection_->worker()->now_ns();
  // RFC 8166 section 4.5.4: a reply that cannot be sent costs the connection.
  if (short_since_ns_ != 0 && now_ns - short_since_ns_ > kStallNs) {
    Count(Refusal::kStalled);
    connection_->MarkBroken();
  }
  if (in_flight_ == 0 || connection_->broken()) return;
  const uint64_t stalled_ns = now_ns - progress_ns_;
  if (stalled_ns <= kWantedStallNs) return;
  bool is_in_the_way = false;
  if (caller_.buffers != nullptr && caller_.buffers->held() > 0) {
    if (!caller_.buffers->IsNarrow(now_ns)) {
      caller_.buffers->Narrow(service_.stalled->Add(caller_.address, now_ns));
    }
    is_in_the_way = caller_.buffers->pool().IsWanted(now_ns);
  }
  if (!is_in_the_way && stalled_ns <= kStallNs) return;
  Count(Refusal::kStalled);
  connection_->MarkBroken();
}

bool Responder::Work() {
  bool moved = false;
  WatchStall();
  while (!wait_room_.empty() && !connection_->broken() && TryPost(wait_room_.front())) {
    wait_room_.Pop();
    moved = true;
  }
  while (!wait_buffers_.empty() && !connection_->broken()) {
    Plan(slots_[wait_buffers_.front()]);
    if (!TryPull(wait_buffers_.front(), header_->chunks)) break;
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
  stall_timer_.Cancel();
  backlog_.Clear();
  wait_buffers_.Clear();
  wait_room_.Clear();
  while (!pieces_.empty()) ReleasePiece();
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::kDispatched) GiveBack(slots_[i].long_reply);
    if (slots_[i].state != State::kFree && slots_[i].state != State::kDispatched) Free(i);
  }
}

void Responder::OnMessage(const Connection::Arrival& arrival) {
  if (arrival.invalidated != 0 || free_slots_.empty() || !backlog_.empty()) [[unlikely]]
    return OnOtherMessage(arrival);
  Accept(arrival);
}

[[gnu::noinline]] void Responder::OnOtherMessage(const Connection::Arrival& arrival) {
  // RFC 8797 section 4.1: a reply invalidates, and nothing is offered for calls that come. Whose
  // memory it was that is gone, of a call in the other direction, all are sent again.
  if (arrival.invalidated != 0) {
    Count(Refusal::kBadInvalidation);
    return connection_->MarkBroken();
  }
  Connection::Arrival waiting = arrival;
  waiting.header = nullptr;  // another message's by then
  waiting.message = connection_->Keep(arrival);
  waiting.buffer = nullptr;
  backlog_.Push(waiting);
}

void Responder::Discard(const Connection::Arrival& arrival, Refusal why) {
  Count(why);
  connection_->Repost(arrival.receive);
}

[[gnu::always_inline]] inline uint32_t Responder::TakeSlot(const Connection::Arrival& arrival,
                                                           uint32_t xid, uint32_t credits,
                                                           size_t header_bytes) {
  const uint32_t index = free_slots_.Take();
  Slot& slot = slots_[index];
  slot.state = State::kWaitBuffers;
  slot.has_receive = true;
  slot.has_chunks = false;
  slot.may_reduce = true;
  slot.receive = arrival.receive;
  slot.message = connection_->Keep(arrival);
  slot.arrived_ns = connection_->worker()->now_ns();
  slot.xid = xid;
  slot.grant = Grant(credits, *service_.credits);
  slot.invalidate = 0;
  slot.payload_offset = header_bytes;
  return index;
}

[[gnu::always_inline]] inline bool Responder::IsWelcome(uint32_t index) {
  ++service_.counters->calls_received;
  // RFC 8166 section 4.5.3
  if (service_.lost->size() == 0) return true;
  if (!service_.lost->Take(KeyOf(slots_[index]), connection_->worker()->now_ns())) return true;
  Count(Refusal::kReplyGone);
  SendError(index, ErrorCode::kChunk);
  return false;
}

CallKey Responder::KeyOf(const Slot& slot) const {
  CallKey key{.client = caller_.address, .xid = slot.xid};
  CallView call;
  const absl::Span<const uint8_t> payload = slot.message.subspan(slot.payload_offset);
  const size_t rpc_bytes = oncrpc::ParseCall(payload, &call.header);
  if (rpc_bytes == 0) return key;
  call.arguments = payload.subspan(rpc_bytes);
  key.program = call.header.program;
  key.version = call.header.version;
  key.procedure = call.header.procedure;
  key.checksum = ChecksumOf(call);
  return key;
}

void Responder::AcceptPlain(const Connection::Arrival& arrival) {
  const uint8_t* const header = arrival.message.data();
  const uint32_t index =
      TakeSlot(arrival, LoadBe32(header + kXidAt), LoadBe32(header + kCreditsAt), kMinHeaderBytes);
  plan_.item_count = plan_.payload_bytes = 0;
  if (IsWelcome(index)) Run(index);
}

void Responder::AcceptAny(const Connection::Arrival& arrival) {
  const auto& [status, header_bytes, header] =
      arrival.header != nullptr ? *arrival.header : connection_->Parse(arrival.message);
  // RFC 8166 section 4.5
  if (status == HeaderStatus::kTooShort || arrival.message.size() < kMinHeaderBytes) {
    return Discard(arrival, Refusal::kShortMessage);
  }
  // RFC 8166 section 4.2.4 and section 4.6.2
  if (status != HeaderStatus::kBadVersion && header.proc == Proc::kError) {
    return Discard(arrival, Refusal::kUnwantedError);
  }
  if (status == HeaderStatus::kOk && header.proc == Proc::kDone) {
    return Discard(arrival, Refusal::kObsolete);
  }

  // RFC 8167 section 4.1
  const uint32_t credits = arrival.is_directed ? header.credits : 0;
  const uint32_t index = TakeSlot(arrival, header.xid, credits, header_bytes);
  Slot& slot = slots_[index];
  slot.has_chunks = status == HeaderStatus::kOk && !header.chunks.empty();
  slot.invalidate = slot.has_chunks && terms_.remote_invalidation ? header.chunks.OnlyHandle() : 0;
  // RFC 8166 section 4.5.1
  if (status == HeaderStatus::kBadVersion) {
    Count(Refusal::kVersion);
    return SendError(index, ErrorCode::kVersion, header.version);
  }
  // RFC 8166 section 4.5.2 and section 4.6.1
  if (status == HeaderStatus::kMalformed || header.proc == Proc::kMsgp || !MayPull(header)) {
    Count(Refusal::kBadCall);
    return SendError(index, ErrorCode::kChunk);
  }
  if (!IsWelcome(index)) return;
  // RFC 8166 section 4.5.3: before the procedure runs.
  if (!MayAnswer(header)) {
    Count(Refusal::kReplyTooLarge);
    return SendError(index, ErrorCode::kChunk);
  }
  if (header.chunks.read_count == 0 && !header.chunks.has_reply) return Dispatch(index);
  // What will be refused is not pulled.
  CallView call;
  if (header.proc == Proc::kMsg &&
      Examine(index, arrival.message.subspan(header_bytes), &call).handler == nullptr) {
    return;
  }
  if (!wait_buffers_.empty() || !TryPull(index, header.chunks)) wait_buffers_.Push(index);
}

bool Responder::MayPull(const Header& header) {
  if (caller_.buffers != nullptr) {
    return MakePullPlan(header.chunks.read_list(), header.proc,
                        caller_.buffers->pool().buffer_bytes(), &plan_);
  }
  plan_.item_count = plan_.payload_bytes = 0;
  // RFC 8167 section 5.3
  return header.chunks.empty();
}

bool Responder::MayAnswer(const Header& header) const {
  const size_t lists = HeaderBytes(header) - header.chunks.read_count * kReadSegmentBytes;
  const size_t payload = header.chunks.has_reply ? 0 : oncrpc::kReplyHeaderBytes;
  return lists + payload <=
         std::min<size_t>(connection_->config().send_bytes, terms_.reply_threshold);
}

void Responder::Plan(const Slot& slot) {
  size_t header_bytes = 0;
  ParseHeader(slot.message, header_.get(), &header_bytes);
  MayPull(*header_);
}

bool Responder::TryPull(uint32_t index, const ChunkLists& chunks) {
  Slot& slot = slots_[index];
  uint32_t last = chunks.read_count;
  for (uint32_t i = 0; i < chunks.read_count; ++i) {
    if (chunks.reads[i].target.length > 0) last = i;
  }
  const bool reads = last < chunks.read_count;
  if (!caller_.buffers->Allows((reads ? 1u : 0u) + (chunks.has_reply ? 1u : 0u),
                               connection_->worker()->now_ns())) {
    return false;
  }
  if (connection_->send_room() < chunks.read_count) return false;
  if (chunks.has_reply) slot.long_reply = caller_.buffers->Take();
  if (!reads) {
    Dispatch(index);
    return true;
  }

  slot.state = State::kPulling;
  slot.pulled = caller_.buffers->Take();
  service_.counters->bytes_read += plan_.Bytes();
  uint32_t payload_at = 0;
  for (uint32_t i = 0; i < chunks.read_count; ++i) {
    const Segment& target = chunks.reads[i].target;
    if (target.length == 0) continue;
    // RFC 8166 section 3.4.5: segments of one chunk are concatenated in list order. The plan is
    // used up: its items' places move on.
    uint32_t& at =
        chunks.reads[i].position == 0 ? payload_at : plan_.Find(chunks.reads[i].position)->at;
    connection_->PostRead({slot.pulled + at, target.length, pool_region_.key}, target.offset,
                          target.handle, BufferOf(index), /*told=*/i == last);
    at += target.length;
  }
  OnPosted();
  return true;
}

void Responder::OnSent(uint32_t cookie) {
  const uint32_t index = cookie - buffers_.first;
  --in_flight_;
  progress_ns_ = connection_->worker()->now_ns();
  Slot& slot = slots_[index];
  if (slot.state != State::kReplyingPlainly) [[unlikely]]
    return OnOtherSent(index);
  slot.state = State::kFree;
  free_slots_.Give(index);
}

[[gnu::noinline]] void Responder::OnOtherSent(uint32_t index) {
  if (slots_[index].state == State::kPulling) {
    Plan(slots_[index]);
    Dispatch(index);
  } else if (slots_[index].pieces > 0) {
    ReleasePiece();
  } else {
    Free(index);
  }
}

// What the client offered failed, or its receive is too small, and would fail again. That the
// network failed is nobody's fault.
void Responder::OnFailed(uint32_t cookie, ibv_wc_status status) {
  if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
      status == IBV_WC_REM_OP_ERR) {
    Count(Refusal::kUnreachableMemory);
    const Slot& slot = slots_[cookie - buffers_.first];
    // A receive that was given back may hold another call by now: then nothing is known of this
    // one.
    if (LoadBe32(&slot.message[kXidAt]) == slot.xid) {
      service_.lost->Add(KeyOf(slot), connection_->worker()->now_ns());
    }
  }
}

bool Responder::CheckEligible(const oncrpc::CallHeader& call, size_t rpc_bytes,
                              const oncrpc::ProcedureBinding& binding) const {
  // RFC 8166 section 8.2.2.3 and section 8.2.2: nothing of the RPC header is eligible either.
  if (oncrpc::ForbidsReduction(call.credential)) return false;
  if (binding.max_eligible_argument_bytes == 0 ||
      plan_.item_count > binding.max_eligible_arguments) {
    return false;
  }
  for (const PulledItem& item : plan_.all()) {
    if (item.position < rpc_bytes ||
        item.bytes > oncrpc::XdrRoundUp(binding.max_eligible_argument_bytes)) {
      return false;
    }
  }
  return true;
}

absl::Span<const oncrpc::ReducedItem> Responder::Items(const Slot& slot, size_t rpc_bytes) const {
  for (uint32_t i = 0; i < plan_.item_count; ++i) {
    const PulledItem& item = plan_.items[i];
    // Nothing was pulled when all items are empty.
    const uint8_t* bytes = slot.pulled == nullptr ? nullptr : slot.pulled + item.at;
    slot.reduced[i] = {.bytes = {bytes, item.bytes}, .position = item.position - rpc_bytes};
  }
  return {slot.reduced, plan_.item_count};
}

[[gnu::always_inline]] inline ProgramTable::Target Responder::Examine(
    uint32_t index, absl::Span<const uint8_t> payload, CallView* call) {
  const Slot& slot = slots_[index];
  const size_t rpc_bytes = oncrpc::ParseCall(payload, &call->header);
  // RFC 8166 section 4.2.1 and section 4.5.2
  if (rpc_bytes == 0 || call->header.xid != slot.xid) [[unlikely]] {
    Count(Refusal::kBadCall);
    SendError(index, ErrorCode::kChunk);
    return {};
  }
  if (call->header.rpc_version != oncrpc::kRpcVersion) [[unlikely]] {
    Count(Refusal::kNotServed);
    SendReply(
        index,
        {.xid = slot.xid, .denied = true, .low = oncrpc::kRpcVersion, .high = oncrpc::kRpcVersion},
        {});
    return {};
  }
  const ProgramTable::Target target =
      service_.programs->Find(call->header.program, call->header.version, call->header.procedure);
  if (target.handler == nullptr) [[unlikely]] {
    const auto [status, low, high] =
        service_.programs->WhyNot(call->header.program, call->header.version);
    Count(Refusal::kNotServed);
    SendReply(index, {.xid = slot.xid, .accept_status = status, .low = low, .high = high}, {});
    return {};
  }
  // RFC 8166 section 6.1
  if (plan_.item_count > 0 && !CheckEligible(call->header, rpc_bytes, *target.binding)) {
    Count(Refusal::kIneligible);
    SendError(index, ErrorCode::kChunk);
    return {};
  }
  call->client_address = caller_.address;
  call->client_port = caller_.port;
  call->connection = caller_.connection;
  // Not subspan(): its check costs in every call, and the header is known to end inside.
  call->arguments = {payload.data() + rpc_bytes, payload.size() - rpc_bytes};
  if (plan_.item_count > 0) call->items = Items(slot, rpc_bytes);
  return target;
}

void Responder::Dispatch(uint32_t index) { Run(index); }

[[gnu::always_inline]] inline void Responder::Run(uint32_t index) {
  Slot& slot = slots_[index];
  CallView call;
  // Not subspan(): its check costs in every call, and the offset is known to be inside.
  const absl::Span<const uint8_t> payload =
      plan_.payload_bytes > 0 ? absl::MakeConstSpan(slot.pulled, plan_.payload_bytes)
                              : absl::MakeConstSpan(slot.message.data() + slot.payload_offset,
                                                    slot.message.size() - slot.payload_offset);
  const auto [binding, handler] = Examine(index, payload, &call);
  if (handler == nullptr) [[unlikely]]
    return;
  if (slot.has_chunks) slot.may_reduce = !oncrpc::ForbidsReduction(call.header.credential);
  slot.joins = binding->joins;
  if ((!binding->idempotent || slot.joins) && !IsFirst(index, call)) return;
  slot.state = State::kDispatched;
  ++dispatched_;
  probe::RpcServerStart(caller_.connection, slot.xid, call.header.program, call.header.procedure);
  (*handler)(call, ReplyHandle(this, index));
}

bool Responder::IsFirst(uint32_t index, const CallView& call) {
  Slot& slot = slots_[index];
  Counters& counters = *service_.counters;
  const auto [outcome, entry] = service_.replies->Begin({.client = caller_.address,
                                                         .xid = slot.xid,
                                                         .program = call.header.program,
                                                         .version = call.header.version,
                                                         .procedure = call.header.procedure,
                                                         .checksum = ChecksumOf(call)});
  if (Planted(Fault::kDuplicateRun)) return true;
  switch (outcome) {
    case ReplyCache::Outcome::kNew:
      slot.cached = entry;
      return true;
    case ReplyCache::Outcome::kFull:
      ++counters.calls_not_cached;
      return true;
    case ReplyCache::Outcome::kRunning:
      // What came before, came by a connection that its client has given up, or it would not ask
      // again; that the connection is gone may not be known here yet.
      if (const auto before = service_.replies->Join(entry, {this, index})) {
        ++counters.duplicates_dropped;
        before->responder->Free(before->slot);
      }
      ++counters.duplicates_joined;
      slot.state = State::kJoined;
      slot.cached = entry;
      return false;
    case ReplyCache::Outcome::kDone:
    case ReplyCache::Outcome::kLost:
      Replay(index, entry);
      return false;
  }
  return true;
}

void Responder::Replay(uint32_t index, uint32_t entry) {
  Slot& slot = slots_[index];
  slot.cached = kNotCached;
  ReplyCache::Saved saved;
  // RFC 8166 section 4.5.3: it ran, and no reply is possible any more.
  if (!service_.replies->Load(entry, &saved)) {
    Count(Refusal::kReplyGone);
    return SendError(index, ErrorCode::kChunk);
  }
  ++service_.counters->duplicates_answered;
  TakeItems(slot, absl::MakeSpan(saved.items).first(saved.item_count), saved.results.size());
  SendReply(index, saved.reply, saved.results);
}

void Responder::GiveBack(uint8_t*& buffer) {
  if (buffer != nullptr) caller_.buffers->Give(std::exchange(buffer, nullptr));
}

}  // namespace pollux::rpcrdma
