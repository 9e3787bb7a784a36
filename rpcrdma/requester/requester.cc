#include "rpcrdma/requester/requester.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/base/probe.h"

namespace pollux::rpcrdma {
namespace {

absl::Status CheckHeader(const oncrpc::CallRequest& request) {
  if (request.header == nullptr) return absl::OkStatus();
  const oncrpc::CallHeader& header = *request.header;
  if (header.credential.body.size() <= oncrpc::kMaxAuthBytes &&
      header.verifier.body.size() <= oncrpc::kMaxAuthBytes &&
      header.procedure == request.procedure) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "the header of a call of procedure %d is of procedure %d, or has a credential or verifier of "
      "more than %d bytes (%d, %d)",
      request.procedure, header.procedure, oncrpc::kMaxAuthBytes, header.credential.body.size(),
      header.verifier.body.size()));
}

}  // namespace

Requester::Requester(engine::Worker* worker, const oncrpc::ProgramBinding* binding,
                     const RequesterConfig& config, Counters* counters)
    : worker_(worker),
      binding_(binding),
      config_(config),
      counters_(counters),
      terms_{.binding = binding,
             .call_header_bytes = oncrpc::CallHeaderBytes({.credential = config.credential}),
             .may_reduce = !oncrpc::ForbidsReduction(config.credential)},
      plain_call_(MakePlainCall()),
      window_(config.credits),
      next_xid_(worker->random().Next32()),
      last_number_(config.earlier_calls),
      xid_mask_(static_cast<uint32_t>(std::bit_ceil(uint64_t{config.max_calls} * 4) - 1)),
      by_xid_(new Slot*[uint64_t{xid_mask_} + 1]()),
      waiting_(std::bit_ceil(config.max_calls)),
      look_timer_(&Requester::OnLook, this) {
  plain_calls_.Reset(terms_);
  for (uint32_t i = 0; i < config.max_calls; ++i) {
    slots_.push_back(std::make_unique<Slot>(this));
    slots_.back()->index = i;
  }
  free_slots_.Fill(0, config.max_calls);
}

Requester::~Requester() { FailAll(absl::CancelledError("the client is gone")); }

PlainCall Requester::MakePlainCall() const {
  return PlainCall({.program = binding_->program,
                    .version = binding_->version,
                    .credential = config_.credential});
}

void Requester::Rebind() {
  plain_calls_.Reset(terms_);
  plain_call_ = MakePlainCall();
}

void Requester::Attach(Connection* connection, const DirectionTerms& terms, SendBuffers buffers) {
  // RFC 8797 section 4: the settings change with the connection, and what a call needs with them.
  terms_.call_threshold = terms.call_threshold;
  terms_.reply_threshold = terms.reply_threshold;
  terms_.chunks = terms.chunks;
  plain_calls_.Reset(terms_);
  invalidatable_ = terms.invalidatable;
  // RFC 8166 section 3.3.3: nothing is known of the grant again.
  window_ = CreditWindow(config_.credits);
  replies_on_connection_ = 0;
  given_up_ = false;
  buffer_uses_.assign(connection->config().send_buffers, 0);
  free_buffers_.Fill(buffers.first, buffers.count);
  // Who is told that a call failed may make another: it is not sent before all have their plan.
  for (const auto& slot : slots_) {
    if (slot->state != State::kWaiting) continue;
    const absl::StatusOr<CallPlan> plan = PlanCall(slot->request, TermsOf(slot->request));
    if (plan.ok()) {
      slot->plan = *plan;
      slot->has_chunks = plan->has_chunks();
    } else {
      Abandon(*slot, absl::FailedPreconditionError(plan.status().message()));
    }
  }
  // The ring's head is where Detach() left it.
  std::sort(waiting_.begin(), waiting_.begin() + waiting_count_, [this](uint32_t a, uint32_t b) {
    const Slot &one = *slots_[a], &other = *slots_[b];
    return (one.silences > 0) != (other.silences > 0) ? other.silences > 0
                                                      : one.number < other.number;
  });
  connection_ = connection;
  ArmLook(worker_->now_ns());
  SendWaiting();
}

void Requester::Detach(const absl::Status& why) {
  look_timer_.Cancel();
  waiting_head_ = waiting_count_ = 0;
  for (const auto& slot : slots_) {
    if (slot->state == State::kFree) continue;
    Fence(*slot);
    if (slot->state == State::kAbandoned) {
      Release(*slot);
      continue;
    }
    if (slot->state == State::kSent && !given_up_) ++slot->losses;
    slot->state = State::kWaiting;
    Enqueue(*slot);
  }
  connection_ = nullptr;
  for (const auto& slot : slots_) {
    if (slot->state == State::kWaiting && slot->losses >= config_.max_losses) Abandon(*slot, why);
  }
}

[[gnu::noinline]] absl::Status Requester::PlanOther(const oncrpc::CallRequest& request,
                                                    CallPlan* plan) {
  if (absl::Status status = CheckHeader(request); !status.ok()) return status;
  const absl::StatusOr<CallPlan> made = PlanCall(request, TermsOf(request));
  if (!made.ok()) return made.status();
  *plan = *made;
  if (request.header != nullptr && PlaceOf(request.header->xid) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrFormat("XID %#x, or one with the same low bits, is that of an outstanding call",
                        request.header->xid));
  }
  return absl::OkStatus();
}

[[gnu::noinline]] absl::Status Requester::TooManyCalls() const {
  return absl::ResourceExhaustedError(
      absl::StrFormat("%d calls are outstanding or waiting", config_.max_calls));
}

absl::Status Requester::Call(const oncrpc::CallRequest& request, oncrpc::CallDone&& done,
                             oncrpc::CallId* id) {
  if (!down_.ok()) return down_;
  // Those that fail are told before this one is among them.
  if (waiting_count_ > 0) SendWaiting();
  CallPlan plan;
  bool has_chunks = false;
  if (!plain_calls_.Include(request)) [[unlikely]] {
    if (absl::Status status = PlanOther(request, &plan); !status.ok()) return status;
    has_chunks = plan.has_chunks();
  }
  if (free_slots_.empty()) [[unlikely]]
    return TooManyCalls();
  Slot& slot = *slots_[free_slots_.Take()];
  slot.state = State::kWaiting;
  slot.number = ++last_number_;
  slot.sends = slot.losses = slot.silences = 0;
  slot.request = request;
  slot.plan = plan;
  slot.has_chunks = has_chunks;
  // That of a free slot is empty: nothing is to be destroyed.
  std::construct_at(&slot.done, std::move(done));
  if (request.header != nullptr) {
    slot.xid = request.header->xid;
    slot.has_xid = true;
    PlaceOf(slot.xid) = &slot;
  }
  if (id != nullptr) *id = {slot.index, slot.number};
  if (request.timeout_ns != 0) {
    worker_->wheel().Arm(slot.timer, worker_->now_ns() + request.timeout_ns);
  }
  if (waiting_count_ > 0 || !MaySend()) {
    Enqueue(slot);
    return absl::OkStatus();
  }
  absl::Status sent = SendCall(slot);
  if (!sent.ok()) {
    slot.timer.Cancel();
    done = std::move(slot.done);
    Release(slot);
  }
  return sent;
}

void Requester::Enqueue(Slot& slot) {
  slot.queued = true;
  WaitingAt(waiting_count_++) = slot.index;
}

void Requester::Dequeue(const Slot& slot) {
  uint32_t place = 0;
  while (WaitingAt(place) != slot.index) ++place;
  for (--waiting_count_; place < waiting_count_; ++place) WaitingAt(place) = WaitingAt(place + 1);
}

[[gnu::noinline]] void Requester::SendFirstWaiting() {
  Slot& slot = *slots_[WaitingAt(0)];
  ++waiting_head_;
  --waiting_count_;
  slot.queued = false;
  absl::Status sent = SendCall(slot);
  if (sent.ok()) [[likely]]
    return;
  CountUnanswered(slot);
  FinishFenced(slot, std::move(sent), nullptr);
}

[[gnu::always_inline]] inline absl::Status Requester::SendCall(Slot& slot) {
  const uint32_t buffer = free_buffers_.next();
  if (!slot.has_xid) TakeXid(slot);
  buffer_uses_[buffer] = 1;
  const absl::Span<uint8_t> message = connection_->send_buffer(buffer);
  size_t bytes = 0;
  if (!slot.has_chunks && slot.request.header == nullptr && slot.request.items.empty()) [[likely]] {
    slot.write_chunk_count = 0;
    slot.offered_reply = false;
    bytes = plain_call_.Emit(slot.xid, slot.request.procedure, window_.requested(),
                             slot.request.arguments, message);
    if (bytes == 0) [[unlikely]]
      return absl::InternalError("the call is larger than its send buffer");
  } else if (absl::Status built = BuildCall(slot, buffer, &bytes); !built.ok()) {
    // RFC 8166 section 4.5.4: a call that cannot be constructed fails at once, and it alone.
    Fence(slot);
    return built;
  }
  slot.state = State::kSent;
  slot.sent_ns = worker_->now_ns();
  if (slot.sends++ > 0) ++counters_->calls_sent_again;
  window_.OnSend();
  free_buffers_.Take();
  ++counters_->calls_sent;
  probe::RpcClientStart(slot.xid, slot.request.procedure, slot.sends);
  const bool hurried = free_buffers_.size() * 2 < free_buffers_.capacity();
  connection_->PostAllowedSend(message.data(), static_cast<uint32_t>(bytes), buffer, hurried,
                               /*invalidate=*/0);
  return absl::OkStatus();
}

void Requester::TakeXid(Slot& slot) {
  while (PlaceOf(next_xid_) != nullptr) ++next_xid_;
  slot.xid = next_xid_++;
  slot.has_xid = true;
  PlaceOf(slot.xid) = &slot;
}

CallTerms Requester::TermsOf(const oncrpc::CallRequest& request) const {
  CallTerms terms = terms_;
  if (request.header != nullptr) {
    terms.call_header_bytes = oncrpc::CallHeaderBytes(*request.header);
    terms.may_reduce = !oncrpc::ForbidsReduction(request.header->credential);
  }
  return terms;
}

Requester::Slot* Requester::FindXid(uint32_t xid) const {
  Slot* const slot = by_xid_[xid & xid_mask_];
  return slot != nullptr && slot->xid == xid && !slot->queued ? slot : nullptr;
}

void Requester::OnSent(uint32_t cookie) {
  ReleaseBuffer(cookie);
  SendWaiting();
}

void Requester::ReleaseBuffer(uint32_t buffer) {
  if (--buffer_uses_[buffer] == 0) free_buffers_.Give(buffer);
}

void Requester::CountUnanswered(const Slot& slot) {
  ++counters_->calls_failed;
  if (slot.sends > 0) probe::RpcClientEnd(slot.xid, probe::CallOutcome::kNoReply);
}

// RFC 8166 section 4.4.1: nobody reaches the memory when the caller gets it back.
void Requester::Abandon(Slot& slot, absl::Status status) {
  Withdraw(slot);
  slot.timer.Cancel();
  CountUnanswered(slot);
  oncrpc::CallDone done = std::exchange(slot.done, nullptr);
  if (slot.queued) {
    Dequeue(slot);
    Release(slot);
  } else {
    slot.state = State::kAbandoned;
  }
  done(std::move(status), nullptr);
  // It may have given back the buffer that others wait for.
  SendWaiting();
}

void Requester::OnTimeout(void* context, uint64_t /*now_ns*/) {
  Slot& slot = *static_cast<Slot*>(context);
  slot.requester->Abandon(slot, absl::DeadlineExceededError("no reply in time"));
}

void Requester::ArmLook(uint64_t now_ns) {
  if (config_.silence_ns == 0) return;
  worker_->wheel().Arm(look_timer_, now_ns + config_.silence_ns / kLooksPerSilence);
}

bool Requester::IsChoked() const {
  if (window_.CanSend()) return false;
  bool any_waits = false;
  for (const auto& slot : slots_) {
    if (slot->silences > 0) continue;
    if (slot->state == State::kSent) return false;
    any_waits |= slot->state == State::kWaiting;
  }
  return any_waits;
}

void Requester::OnLook(void* requester, uint64_t now_ns) {
  auto& self = *static_cast<Requester*>(requester);
  // The time limit does not double for calls that block others, nor for abandoned calls.
  const bool choked = self.IsChoked();
  const uint64_t max_silence_ns =
      choked ? self.config_.silence_ns / kLooksPerSilence : self.config_.silence_ns;
  bool any_silent = false;
  for (const auto& slot : self.slots_) {
    const bool outstanding = slot->state == State::kSent || slot->state == State::kAbandoned;
    const uint32_t doublings = choked || slot->state == State::kAbandoned
                                   ? 0
                                   : std::min(slot->silences, kMaxSilenceDoublings);
    if (!outstanding || now_ns < slot->sent_ns + (max_silence_ns << doublings)) continue;
    ++slot->silences;
    any_silent = true;
  }
  if (!any_silent) return self.ArmLook(now_ns);
  ++self.counters_->connections_silent;
  self.given_up_ = true;
  self.connection_->MarkBroken();
}

bool Requester::Cancel(const oncrpc::CallId& id) {
  if (id.number == 0 || id.slot >= slots_.size()) return false;
  Slot& slot = *slots_[id.slot];
  const bool runs = slot.state == State::kWaiting || slot.state == State::kSent;
  if (slot.number != id.number || !runs) return false;
  slot.done = [](const absl::Status&, const oncrpc::Reply*) {};
  Abandon(slot, absl::CancelledError("cancelled"));
  return true;
}

void Requester::FailAll(const absl::Status& status) {
  down_ = status;
  look_timer_.Cancel();
  // Who is told may cancel others: none waits any more.
  waiting_count_ = 0;
  for (const auto& slot : slots_) slot->queued = false;
  for (const auto& slot : slots_) {
    if (slot->state == State::kFree) continue;
    const bool abandoned = slot->state == State::kAbandoned;
    Fence(*slot);
    slot->timer.Cancel();
    if (!abandoned) CountUnanswered(*slot);
    oncrpc::CallDone done = std::move(slot->done);
    Release(*slot);
    if (!abandoned) done(status, nullptr);
  }
}

}  // namespace pollux::rpcrdma
