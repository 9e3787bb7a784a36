#include "tests/sim/failing_end.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/wire/ext_headers.h"
#include "tests/sim/connect.h"

namespace pollux::sim {
namespace {

constexpr size_t kGuardBytes = 256;  // between parts of the arena
constexpr uint32_t kDepth = 16;
constexpr uint32_t kQkey = 0x1BADCAFE;

ibv_wr_opcode DrawOpcode(Random& random, ibv_qp_type type) {
  // In the order in which the types have them: UD the first two, UC the first four.
  constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND,         IBV_WR_SEND_WITH_IMM,
                                        IBV_WR_RDMA_WRITE,   IBV_WR_RDMA_WRITE_WITH_IMM,
                                        IBV_WR_RDMA_READ,    IBV_WR_ATOMIC_FETCH_AND_ADD,
                                        IBV_WR_ATOMIC_WRITE, verbs::kWrFlush};
  return kOpcodes[random.Below(type == IBV_QPT_UD   ? 2
                               : type == IBV_QPT_UC ? 4
                                                    : std::size(kOpcodes))];
}

}  // namespace

FailingEnd::FailingEnd(std::string name, FailingHost& host, ibv_qp_type type, verbs::QueuePair* qp,
                       uint64_t seed, Log* log)
    : name_(std::move(name)), host_(host), type_(type), qp_(qp), random_(seed), log_(log) {
  if (qp_ == nullptr) {
    verbs::QueuePairInitAttr init;
    init.type = type;
    init.pd = host.pd();
    init.send_cq = init.recv_cq = host.cq();
    init.srq = host.srq();
    init.cap.max_send_wr = init.cap.max_recv_wr = kDepth;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp_ = host.worker().CreateQp(std::move(init)).value();
  }
  qpn_ = qp_->qpn();
}

void FailingEnd::Violate(const std::string& what) {
  log_->Violate(absl::StrCat(name_, ": ", what));
}

void FailingEnd::Draw(int messages, uint32_t max_length, SimulatedFault fault) {
  for (int i = 0; i < messages; ++i) {
    FailingMessage message;
    message.opcode = DrawOpcode(random_, type_);
    message.length = message.changes_word() ? 8
                     : message.is_flush()   ? 0
                                            : static_cast<uint32_t>(random_.Below(max_length + 1));
    message.immediate = random_.Next32();
    message.signaled = random_.Chance(0.7) || i + 1 == messages;
    message.value = random_.Next64();
    messages_.push_back(message);
  }
  fault_ = fault;
  fault_after_ = random_.Below(static_cast<uint64_t>(messages));
  affects_one_ = fault == SimulatedFault::kLocalGone && random_.Chance(0.7);
}

void FailingEnd::Reserve(size_t length, size_t* offset) {
  end_ += 1 + random_.Below(64);
  *offset = end_;
  end_ += length;
}

// What it sends; its receives, one after the other; what the peer writes and reads; a word.
void FailingEnd::LayOut(FailingEnd& peer, unsigned arena_slot) {
  peer_ = &peer;
  end_ = kGuardBytes;
  for (FailingMessage& message : messages_) Reserve(message.length, &message.local);
  receives_start_ = end_ += kGuardBytes;
  end_ += peer.messages_.size() * (ReceiveBytes() + kReceiveGapBytes);
  target_start_ = end_ += kGuardBytes;
  for (FailingMessage& message : peer.messages_) {
    if (!message.changes_word() && !message.is_flush() && message.opcode != IBV_WR_SEND &&
        message.opcode != IBV_WR_SEND_WITH_IMM) {
      Reserve(message.length, &message.remote);
    }
  }
  word_ = (end_ + 7) / 8 * 8;
  end_ = word_ + 8 + kGuardBytes;
  arena_ = std::make_unique<Arena>(end_, arena_slot, random_);
  constexpr uint8_t kZeroes[8] = {};
  std::memcpy(arena_->at(word_), kZeroes, 8);
  arena_->Expect(word_, kZeroes, 8);
  Register();
}

void FailingEnd::Register() {
  engine::Worker& worker = host_.worker();
  const auto make = [&](size_t start, size_t end, int access) {
    return worker.RegMr(host_.pd(), arena_->at(start), end - start, access | IBV_ACCESS_LOCAL_WRITE)
        .value();
  };
  local_ = make(0, receives_start_ - kGuardBytes, 0);
  receive_ = make(receives_start_, target_start_ - kGuardBytes, 0);
  target_ = make(target_start_, end_ - kGuardBytes,
                 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                     memory::kAccessFlushGlobal);
  if (!affects_one_) return;
  const FailingMessage& one = messages_[fault_after_];
  own_ = make(one.local, one.local + std::max(1u, one.length), 0);
}

void FailingEnd::Connect(ibv_qp_attr attr, uint32_t own_psn, uint32_t peer_psn, bool in_order) {
  in_order_ = in_order;
  few_retries_ = attr.retry_cnt < 7;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC | memory::kAccessFlushGlobal;
  if (type_ == IBV_QPT_UC) attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  attr.qkey = kQkey;
  attr.sq_psn = own_psn;
  attr.rq_psn = peer_psn;
  // A receive that comes late is waited for; one that does not come is not.
  attr.rnr_retry = peer_->fault_ == SimulatedFault::kNoReceives ? 3 : 7;
  Node& peer_node = peer_->host_.node();
  const absl::Status status = BringToRts(host_.node(), qp_, peer_node, peer_->qpn_, attr);
  if (!status.ok()) Violate(status.ToString());
  if (type_ == IBV_QPT_UD) {
    ah_ = host_.worker().CreateAh(host_.pd(), AddressOf(peer_node)).value();
  }
  host_.Add(this);
}

bool FailingEnd::Run() {
  if (fault_ != SimulatedFault::kNone && !fired_ && posted_ > fault_after_ && random_.Chance(0.3)) {
    Fire();
  }
  if (qp_ == nullptr || qp_->state() == IBV_QPS_RESET) return false;
  const bool received = PostReceives();
  return PostSends() || received;
}

void FailingEnd::Fire() {
  fired_ = true;
  ibv_qp_attr attr{};
  switch (fault_) {
    case SimulatedFault::kNone:
    case SimulatedFault::kNoReceives:
    case SimulatedFault::kReceiveTooSmall:
    case SimulatedFault::kCompletionsLost:
      return;
    case SimulatedFault::kReceiveGone:
      return Deregister(receive_);
    case SimulatedFault::kTargetGone:
      return Deregister(target_);
    case SimulatedFault::kLocalGone:
      return Deregister(affects_one_ ? own_ : local_);
    case SimulatedFault::kError:
    case SimulatedFault::kReset: {
      if (fault_ == SimulatedFault::kReset && qp_->state() != IBV_QPS_ERR) host_.CountLostReceive();
      attr.qp_state = fault_ == SimulatedFault::kError ? IBV_QPS_ERR : IBV_QPS_RESET;
      const absl::Status status = host_.worker().ModifyQp(qp_, attr, IBV_QP_STATE);
      if (!status.ok()) Violate(status.ToString());
      return;
    }
    case SimulatedFault::kDestroyed:
      return Destroy();
  }
}

void FailingEnd::OnCompletionsLost() {
  if (!fired_) fault_ = SimulatedFault::kCompletionsLost;
  fired_ = true;
  if (qp_ != nullptr && qp_->state() != IBV_QPS_ERR && qp_->state() != IBV_QPS_RESET) {
    Violate("a queue pair goes on after one of its completions was lost");
  }
}

void FailingEnd::Deregister(memory::MemoryRegion& region) {
  if (region.key == 0) return;
  const absl::Status status = host_.worker().DeregMr(region);
  if (!status.ok()) Violate(status.ToString());
  region.key = 0;
}

void FailingEnd::Destroy() {
  // What has completed before is still there to be polled.
  host_.PollCompletions();
  if (qp_->state() != IBV_QPS_ERR) host_.CountLostReceive();
  if (const absl::Status status = host_.worker().DestroyQp(qp_); !status.ok()) {
    Violate(status.ToString());
  }
  qp_ = nullptr;
  // Requests that DestroyQp() has sent complete in it if they need no acknowledgement.
  host_.PollCompletions();
  host_.Remove(this);
  host_.Retire(qpn_);
}

bool FailingEnd::PostSends() {
  bool posted = false;
  while (posted_ < messages_.size() && qp_->sq_tail() - qp_->sq_head() < kDepth) {
    if (qp_->sq_head() != qp_->sq_tail() && random_.Chance(0.3)) break;
    if (const int error = Post(messages_[posted_]); error != 0) {
      Violate(absl::StrFormat("posting request %d: errno %d", posted_, error));
      return false;
    }
    ++posted_;
    posted = true;
  }
  return posted;
}

int FailingEnd::Post(const FailingMessage& message) {
  const bool has_own = affects_one_ && posted_ == fault_after_;
  ibv_sge sge{Address(message.local), message.length, has_own ? own_.key : local_.key};
  verbs::FlushWorkRequest wr{};
  wr.wr_id = posted_;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = message.opcode;
  wr.send_flags = message.signaled ? IBV_SEND_SIGNALED : 0;
  wr.imm_data = message.immediate;
  // The key as the peer told it once.
  const uint32_t key = peer_->target_.key;
  if (type_ == IBV_QPT_UD) {
    wr.wr.ud = {.ah = ah_, .remote_qpn = peer_->qpn_.value, .remote_qkey = kQkey};
  } else if (message.is_atomic()) {
    wr.wr.atomic = {.remote_addr = peer_->Address(peer_->word_),
                    .compare_add = message.value,
                    .swap = 0,
                    .rkey = key};
  } else if (message.is_atomic_write()) {
    sge = {reinterpret_cast<uint64_t>(&message.value), sizeof message.value, 0};
    wr.send_flags |= IBV_SEND_INLINE;
    wr.wr.rdma = {.remote_addr = peer_->Address(peer_->word_), .rkey = key};
  } else if (message.is_flush()) {
    wr.wr.rdma = {.remote_addr = peer_->Address(peer_->word_), .rkey = key};
    wr.length = 8;
    wr.placement = wire::kFlushGlobal;
    wr.selectivity = message.immediate % 2 == 0 ? wire::kFlushRange : wire::kFlushRegion;
  } else {
    wr.wr.rdma = {.remote_addr = peer_->Address(message.remote), .rkey = key};
  }
  return qp_->PostSend(&wr, nullptr);
}

bool FailingEnd::PostReceives() {
  const bool stopped = fired_ && fault_ == SimulatedFault::kNoReceives;
  if (host_.srq() != nullptr || stopped || receives_posted_ == peer_->messages_.size() ||
      receives_posted_ - receives_completed_ == kDepth || random_.Chance(0.6)) {
    return false;
  }
  const bool no_room = fired_ && fault_ == SimulatedFault::kReceiveTooSmall;
  ibv_sge sge{Address(ReceivePlace(receives_posted_)), no_room ? 0 : ReceiveBytes(), receive_.key};
  ibv_recv_wr wr{};
  wr.wr_id = receives_posted_;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (const int error = qp_->PostRecv(&wr, nullptr); error != 0) {
    Violate(absl::StrFormat("posting receive %d: errno %d", receives_posted_, error));
    return false;
  }
  ++receives_posted_;
  return true;
}

bool FailingEnd::settled() const {
  const bool sends = qp_ == nullptr || qp_->state() == IBV_QPS_RESET || host_.overran() ||
                     completed_ == messages_.size();
  if (!reliable() || few_retries_ || fault_ != SimulatedFault::kNone ||
      peer_->fault_ != SimulatedFault::kNone) {
    return sends;
  }
  return sends && received_ == peer_->ReceivesSentFor(peer_->messages_.size());
}

std::string FailingEnd::Progress() const {
  return absl::StrFormat("%s (type %d, fault %d, %s): %d of %d posted, %d completed; %d received",
                         name_, type_, fault_, fired_ ? "fired" : "not fired", posted_,
                         messages_.size(), completed_, received_);
}

uint64_t FailingEnd::ReceivesSentFor(size_t messages) const {
  return static_cast<uint64_t>(
      std::count_if(messages_.begin(), messages_.begin() + static_cast<ptrdiff_t>(messages),
                    [](const FailingMessage& message) { return message.takes_receive(); }));
}

void FailingEnd::CheckAndStop() {
  if (qp_ != nullptr && qp_->state() != IBV_QPS_RESET) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    const absl::Status status = host_.worker().ModifyQp(qp_, attr, IBV_QP_STATE);
    if (!status.ok()) Violate(status.ToString());
    host_.PollCompletions();
    if (host_.overran()) {
      host_.Remove(this);
      return;
    }
    if (completed_ != posted_) Violate(absl::StrCat("requests vanished; ", Progress()));
    if (host_.srq() == nullptr && receives_completed_ != receives_posted_) {
      Violate(
          absl::StrFormat("%d of %d receives completed", receives_completed_, receives_posted_));
    }
  }
  host_.Remove(this);
}

verbs::QueuePair* FailingEnd::Release(bool destroy) {
  engine::Worker& worker = host_.worker();
  for (memory::MemoryRegion* region : {&local_, &receive_, &target_, &own_}) Deregister(*region);
  if (qp_ != nullptr && !destroy) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    const absl::Status status = worker.ModifyQp(qp_, attr, IBV_QP_STATE);
    if (!status.ok()) Violate(status.ToString());
  } else if (qp_ != nullptr) {
    Destroy();
  }
  if (ah_ != nullptr && !worker.DestroyAh(ah_).ok()) Violate("an address handle stays");
  return std::exchange(qp_, nullptr);
}

}  // namespace pollux::sim
