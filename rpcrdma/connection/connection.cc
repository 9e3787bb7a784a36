#include "rpcrdma/connection/connection.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "stack/base/memory_reserve.h"
#include "stack/base/planted_fault.h"

namespace pollux::rpcrdma {
namespace {

// The wr_id of receives: their number, and this bit.
constexpr uint64_t kReceiveBit = 1ull << 63;
// The wr_id of work requests: their cookie, with this bit if their success is not reported.
constexpr uint64_t kUntoldBit = 1ull << 62;
constexpr uint32_t kAskedCookie = Connection::kMaxCookie;  // of WatchPeer()
constexpr int kPollBatch = 64;  // more than a burst brings, so that the queue becomes empty

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Create(
    engine::Worker* worker, Wakeup* poller, const ConnectionConfig& config,
    absl::AnyInvocable<void(ibv_event_type)> on_event) {
  std::unique_ptr<Connection> connection(new Connection(worker, poller, config));
  if (absl::Status status = connection->Init(std::move(on_event)); !status.ok()) return status;
  return connection;
}

absl::Status Connection::Init(absl::AnyInvocable<void(ibv_event_type)> on_event) {
  if (absl::Status status = MakeObjects(std::move(on_event)); !status.ok()) return status;
  if (config_.first_receives == 0) return MakeBuffers();
  return MakeMemory(config_.first_receives * Stride(config_.receive_bytes), IBV_ACCESS_LOCAL_WRITE,
                    &first_memory_, &first_region_);
}

absl::Status Connection::MakeObjects(absl::AnyInvocable<void(ibv_event_type)> on_event) {
  // Its own, so that no connection can use the keys of another: RFC 5042 section 3 and section
  // 6.1.1.
  auto pd = worker_->AllocPd();
  if (!pd.ok()) return pd.status();
  pd_ = *pd;
  // Its own, and never full: RFC 5042 section 6.4.3.2 and section 6.4.6.
  auto cq = worker_->CreateCq(config_.receives + config_.send_queue);
  if (!cq.ok()) return cq.status();
  cq_ = *cq;
  cq_->WakeOnCompletion(&wakeup_);

  verbs::QueuePairInitAttr init;
  init.type = IBV_QPT_RC;
  init.pd = pd_;
  init.send_cq = cq_;
  init.recv_cq = cq_;
  init.cap.max_send_wr = config_.send_queue;
  init.cap.max_recv_wr = config_.receives;
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  init.sends_wakeup = &wakeup_;
  init.message_handler = {&Connection::OnMessage, this};
  init.on_event = std::move(on_event);
  auto qp = worker_->CreateQp(std::move(init));
  if (!qp.ok()) return qp.status();
  qp_ = *qp;
  posted_ = told_ = qp_->sq_head();
  open_queue_ = config_.send_queue;
  return absl::OkStatus();
}

absl::Status Connection::MakeBuffers() {
  if (!MemoryReserve::IsWhole()) return absl::ResourceExhaustedError("memory is short");
  received_ = std::make_unique<ReceivedHeader>();
  if (absl::Status status = MakeMemory(config_.receives * Stride(config_.receive_bytes),
                                       IBV_ACCESS_LOCAL_WRITE, &receive_memory_, &receive_region_);
      !status.ok()) {
    return status;
  }
  return MakeMemory(config_.send_buffers * Stride(config_.send_bytes), 0, &send_memory_,
                    &send_region_);
}

absl::Status Connection::MakeMemory(uint64_t bytes, int access, Memory* memory,
                                    memory::MemoryRegion* region) {
  // Zeroed, so that nothing that was freed is ever sent; of as much the kernel makes no page before
  // it is used.
  memory->reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
  if (*memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("no memory for buffers of %d bytes", bytes));
  }
  auto registered = Register(memory->get(), bytes, access);
  if (!registered.ok()) return registered.status();
  *region = *registered;
  return absl::OkStatus();
}

Connection::~Connection() {
  Close();
  for (const memory::MemoryRegion& region : {first_region_, receive_region_, send_region_}) {
    if (region.key != 0) worker_->DeregMr(region).IgnoreError();
  }
  if (cq_ != nullptr) worker_->DestroyCq(cq_).IgnoreError();
  if (pd_ != nullptr) worker_->DeallocPd(pd_).IgnoreError();
}

void Connection::Close() {
  MarkBroken();
  quiet_timer_.Cancel();
  refusals_.Tell();
  if (qp_ != nullptr) worker_->DestroyQp(qp_).IgnoreError();
  qp_ = nullptr;
}

absl::Status Connection::PostReceives() {
  for (uint32_t i = 0; i < config_.first_receives; ++i) {
    const uint32_t receive = config_.receives + i;
    PostReceive(receive, ReceiveBuffer(receive), first_region_.key);
  }
  if (config_.first_receives == 0) {
    for (uint32_t i = 0; i < config_.receives; ++i) Repost(i);
  }
  return broken_ ? absl::InternalError("cannot post receives to the queue pair") : absl::OkStatus();
}

absl::Status Connection::Complete() {
  if (absl::Status status = MakeBuffers(); !status.ok()) return status;
  for (uint32_t i = config_.first_receives; i < config_.receives; ++i) Repost(i);
  return broken_ ? absl::InternalError("cannot post receives to the queue pair") : absl::OkStatus();
}

// Receives with the numbers config_.receives and above are the config_.first_receives.
void Connection::PostReceive(uint32_t receive, uint8_t* buffer, uint32_t lkey) {
  const ibv_sge sge{reinterpret_cast<uint64_t>(buffer), config_.receive_bytes, lkey};
  if (qp_->PostOneRecv(kReceiveBit | receive, sge) != 0) [[unlikely]]
    MarkBroken();
}

void Connection::RepostConsumed(uint32_t receive) {
  if (qp_ == nullptr) [[unlikely]]
    return;
  // In place of a first one, the buffer that was kept for it.
  if (receive >= config_.receives) [[unlikely]]
    receive -= config_.receives;
  PostReceive(receive, receive_memory_.get() + receive * Stride(config_.receive_bytes),
              receive_region_.key);
}

// In IBV_QPS_ERR the rest of the send queue was flushed, which is not done.
[[gnu::always_inline]] inline bool Connection::TellSent(Role& role) {
  if (qp_ == nullptr || qp_->state() == IBV_QPS_ERR) return false;
  const uint32_t end = qp_->sq_head();
  if (told_ == end) return false;
  while (told_ != end && !broken_) {
    // A work request's place is not reused before send_queue more have been posted.
    const uint64_t wr_id = qp_->sq(told_++).wr_id;
    if (wr_id < kMaxCookie) [[likely]] {
      role.OnSent(static_cast<uint32_t>(wr_id));
    } else if (wr_id == kAskedCookie) {
      asked_ = false;
    }
  }
  return true;
}

bool Connection::PollSent(Role& role) {
  HoldMessages();
  if (!HasCompletions()) return false;
  if (qp_ == nullptr || qp_->state() != IBV_QPS_ERR) return TellSent(role);
  // The failed work request's completion may be behind received messages.
  MarkBroken();
  return true;
}

bool Connection::PollCompletions(Role& role) {
  const bool sent = TellSent(role);
  int taken = 0;
  for (; taken < kPollBatch && !broken_; ++taken) {
    const ibv_wc* const wc = cq_->front();
    if (wc == nullptr) break;
    TakeCompletion(*wc, role);
  }
  const bool heard = sent || taken > 0;
  if (heard) heard_ns_ = worker_->now_ns();
  if (cq_->overrun()) MarkBroken();
  return heard;
}

// `wc` is the queue's oldest, in its place: what the role does may write over it.
void Connection::TakeCompletion(const ibv_wc& wc, Role& role) {
  const uint64_t wr_id = wc.wr_id;
  const ibv_wc_status status = wc.status;
  // An RDMA WRITE with immediate data completes a receive, too, but it has written byte_len bytes
  // to other memory, and the receive's buffer still holds an earlier message.
  const uint32_t bytes = wc.opcode == IBV_WC_RECV ? wc.byte_len : 0;
  const uint32_t invalidated = (wc.wc_flags & IBV_WC_WITH_INV) != 0 ? wc.invalidated_rkey : 0;
  cq_->Pop();
  const auto index = static_cast<uint32_t>(wr_id);
  if (status != IBV_WC_SUCCESS) [[unlikely]] {
    MarkBroken();
    failure_ = status;
    if ((wr_id & kReceiveBit) == 0 && index != kAskedCookie) role.OnFailed(index, status);
  } else if ((wr_id & kReceiveBit) != 0) [[likely]] {
    Arrival arrival{
        .receive = index, .message = {ReceiveBuffer(index), bytes}, .invalidated = invalidated};
    DeliverMessage(arrival, role);
  }
}

[[gnu::always_inline]] inline void Connection::DeliverMessage(Arrival& arrival, Role& role) {
  arrival.plain = IsPlainMessage(arrival.message);
  if (!arrival.plain) [[unlikely]]
    return DeliverOtherMessage(arrival, role);
  role.OnMessage(arrival);
}

[[gnu::noinline]] void Connection::DeliverOtherMessage(Arrival& arrival, Role& role) {
  arrival.header = &Parse(arrival.message);
  role.OnMessage(arrival);
}

[[gnu::noinline]] void Connection::LeaveToPoll(const verbs::PostedRecv& receive,
                                               const Arrival& arrival) {
  const size_t bytes = Keep(arrival).size();
  qp_->CompletePacketRecv(receive, /*solicited=*/false, [bytes](ibv_wc& wc) {
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = static_cast<uint32_t>(bytes);
  });
}

void Connection::OnMessage(void* connection, const verbs::PostedRecv& receive,
                           const uint8_t* message, size_t bytes) {
  auto& self = *static_cast<Connection*>(connection);
  Arrival arrival{.receive = static_cast<uint32_t>(receive.wr_id),
                  .message = {message, bytes},
                  .buffer = reinterpret_cast<uint8_t*>(receive.element.addr)};
  // It must not overtake a message that waits for Poll().
  const bool waits = self.cq_->size() != 0 && !Planted(Fault::kMessageOvertakes);
  if (self.role_ == nullptr || waits || MemoryReserve::IsLow()) [[unlikely]]
    return self.LeaveToPoll(receive, arrival);
  self.heard_ns_ = self.worker_->now_ns();
  self.current_receive_ = arrival.receive;
  self.DeliverMessage(arrival, *self.role_);
  if (std::exchange(self.current_receive_, kNoReceive) == kNoReceive) [[likely]]
    return;
  // The message is kept. Whatever it waits for, Poll() sees to it.
  self.wakeup_.Wake();
  if (self.qp_ != nullptr && !Planted(Fault::kReceiveNotKept)) self.qp_->ConsumeRecv();
}

const ReceivedHeader& Connection::Parse(absl::Span<const uint8_t> message) {
  received_->status = ParseHeader(message, &received_->header, &received_->bytes);
  return *received_;
}

void Connection::WatchPeer() {
  heard_ns_ = worker_->now_ns();
  worker_->wheel().Arm(quiet_timer_, heard_ns_ + kQuietNs);
}

void Connection::OnQuiet(void* connection, uint64_t now_ns) {
  auto& self = *static_cast<Connection*>(connection);
  if (self.broken_) return;
  const bool quiet = now_ns >= self.heard_ns_ + kQuietNs;
  // Without room there is something on the way, whose retries tell as well.
  if (quiet && !self.asked_ && self.send_room() > 0) {
    self.asked_ = true;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = verbs::kSendAskAck;
    self.Post(wr, kAskedCookie, /*told=*/true);
  }
  self.worker_->wheel().Arm(self.quiet_timer_, (quiet ? now_ns : self.heard_ns_) + kQuietNs);
}

void Connection::Post(ibv_send_wr& wr, uint32_t cookie, bool told) {
  wr.wr_id = told ? cookie : cookie | kUntoldBit;
  if (!MaySend() || qp_->PostSend(&wr, nullptr) != 0) {
    MarkBroken();
    return;
  }
  ++posted_;
}

void Connection::PostRead(const Local& to, uint64_t remote, uint32_t rkey, uint32_t cookie,
                          bool told) {
  ibv_sge sge{reinterpret_cast<uint64_t>(to.address), to.length, to.lkey};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_READ;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = remote;
  wr.wr.rdma.rkey = rkey;
  Post(wr, cookie, told);
}

void Connection::PostWrite(const Local& from, uint64_t remote, uint32_t rkey, uint32_t cookie,
                           bool told) {
  ibv_sge sge{reinterpret_cast<uint64_t>(from.address), from.length, from.lkey};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  // A WRITE whose completion is not reported need not ask for an acknowledgement.
  wr.send_flags = told ? verbs::kSendAskAck : 0;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = remote;
  wr.wr.rdma.rkey = rkey;
  Post(wr, cookie, told);
}

absl::StatusOr<memory::MemoryRegion> Connection::Register(const void* address, uint64_t length,
                                                          int access) {
  return worker_->RegMr(pd_, const_cast<void*>(address), length, access);
}

absl::StatusOr<memory::MemoryRegion> Connection::RegisterInvalidatable(const void* address,
                                                                       uint32_t length,
                                                                       int access) {
  return worker_->RegFastMr(pd_, const_cast<void*>(address), length, access);
}

void Connection::Invalidate(const memory::MemoryRegion& region) {
  // The peer may have done it before.
  const memory::MemoryRegion* const now = pd_->regions->Find(region.key);
  if (now != nullptr && !now->mapped) return;
  // RFC 8166 section 4.5.4
  if (!pd_->regions->InvalidateLocal(*pd_, region.key)) MarkBroken();
}

void Connection::Deregister(const memory::MemoryRegion& region) {
  // RFC 8166 section 4.5.4
  if (!worker_->DeregMr(region).ok()) MarkBroken();
}

}  // namespace pollux::rpcrdma
