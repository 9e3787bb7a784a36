#include "tests/sim/rc_side.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/transport/rc/send_cursor.h"
#include "stack/wire/ext_headers.h"
#include "tests/sim/connect.h"

namespace pollux::sim {
namespace {

constexpr size_t kRcGuardBytes = 4096;  // between parts of the arena, registered for nobody
constexpr uint64_t kStaleWrId = 1'000'000;
constexpr double kDrainChance = 0.01;  // per poll with requests to post

}  // namespace

RcSide::RcSide(const std::string& name, Node& node, unsigned slot, uint64_t seed, Log* log)
    : name_(name), node_(node), slot_(slot), random_(seed), log_(log) {}

RcSide::~RcSide() { node_.worker().RemovePoller(this); }

void RcSide::Violate(const std::string& what) { log_->Violate(absl::StrCat(name_, ": ", what)); }

void RcSide::Take(RcSequence sequence) {
  operations_ = std::move(sequence.operations);
  object_kinds_ = std::move(sequence.objects);
}

void RcSide::Reserve(size_t* end, size_t length, size_t* offset) {
  *end += 1 + random_.Below(64);
  *offset = *end;
  *end += length;
}

void RcSide::LayOut(RcSide& peer) {
  peer_ = &peer;
  size_t end = kRcGuardBytes;
  for (RcOperation& operation : operations_) Reserve(&end, operation.length, &operation.local);
  for (RcOperation& operation : peer.operations_) {
    if (!operation.takes_receive()) continue;
    Reserve(&end, operation.receive_size, &operation.receive);
    receives_.push_back(&operation);
  }
  target_start_ = end += kRcGuardBytes;
  for (RcOperation& operation : peer.operations_) {
    if (operation.is_write() && operation.exposure == nullptr) {
      Reserve(&end, operation.length, &operation.remote);
    }
  }
  target_end_ = end + 1;
  exposed_start_ = end += kRcGuardBytes;
  LayOutExposures(&end);
  exposed_end_ = end + 1;
  source_start_ = end += kRcGuardBytes;
  for (RcOperation& operation : peer.operations_) {
    if (operation.opcode == IBV_WR_RDMA_READ && operation.exposure == nullptr) {
      Reserve(&end, operation.length, &operation.remote);
    }
  }
  source_end_ = end + 1;
  end += kRcGuardBytes;
  words_start_ = (end + 7) / 8 * 8;
  arena_bytes_ = words_start_ + 8 * kRcWords + kRcGuardBytes;
  arena_ = std::make_unique<Arena>(arena_bytes_, slot_, random_);
  constexpr uint8_t kZeroes[8 * kRcWords] = {};
  std::copy(std::begin(kZeroes), std::end(kZeroes), arena_->at(words_start_));
  arena_->Expect(words_start_, kZeroes, sizeof kZeroes);
}

// Of one request's own memory, or one stretch for all that the peer does with it.
void RcSide::LayOutExposures(size_t* end) {
  for (RcOperation& operation : operations_) {
    if (operation.local_exposure != nullptr) {
      operation.local_exposure->offset = operation.local;
      operation.local_exposure->length = operation.length;
    }
    const bool maps = operation.is_local() && operation.opcode != IBV_WR_LOCAL_INV;
    if (!maps || operation.exposure->length != 0) continue;
    ExposedRegion& exposure = *operation.exposure;
    const auto reserve_for = [&](std::vector<RcOperation>& users) {
      for (RcOperation& user : users) {
        if (user.exposure != operation.exposure || user.is_local()) continue;
        if (user.is_write() || user.opcode == IBV_WR_RDMA_READ) {
          Reserve(end, user.length, &user.remote);
        }
      }
    };
    exposure.offset = *end;
    reserve_for(peer_->operations_);
    *end += 1;
    exposure.length = static_cast<uint32_t>(*end - exposure.offset);
    *end += kRcGuardBytes;
  }
}

void RcSide::Create(uint32_t depth) {
  depth_ = depth;
  engine::Worker& worker = node_.worker();
  pd_ = worker.AllocPd().value();
  cq_ = worker.CreateCq(1024).value();
  verbs::QueuePairInitAttr init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = init.cap.max_recv_wr = depth;
  init.cap.max_send_sge = init.cap.max_recv_sge = kMaxElements;
  init.cap.max_inline_data = kRcInline;
  init.first_msn = first_msn_;
  qp_ = worker.CreateQp(std::move(init)).value();
  qpn_ = qp_->qpn();
  Register();
  MakeObjects();
  MapInvalidated();
}

void RcSide::Register() {
  engine::Worker& worker = node_.worker();
  const size_t local_start = kRcGuardBytes;
  local_ = worker
               .RegMr(pd_, arena_->at(local_start), target_start_ - kRcGuardBytes - local_start,
                      IBV_ACCESS_LOCAL_WRITE)
               .value();
  target_ =
      worker
          .RegMr(pd_, arena_->at(target_start_), target_end_ - target_start_,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | memory::kAccessFlushGlobal)
          .value();
  exposed_ = worker
                 .RegMr(pd_, arena_->at(exposed_start_), exposed_end_ - exposed_start_,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
                 .value();
  source_ = worker
                .RegMr(pd_, arena_->at(source_start_), source_end_ - source_start_,
                       IBV_ACCESS_REMOTE_READ)
                .value();
  words_ = worker
               .RegMr(pd_, arena_->at(words_start_), 8 * kRcWords,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_WRITE)
               .value();
}

void RcSide::MakeObjects() {
  for (const ExposedRegion::Kind kind : object_kinds_) {
    Object object{.kind = kind};
    if (kind == ExposedRegion::Kind::kFastRegion) {
      const auto most = static_cast<uint32_t>(arena_bytes_);
      object.key = node_.worker().AllocFastMr(pd_, most).value().key;
    } else {
      object.window = node_.worker()
                          .AllocMw(pd_, kind == ExposedRegion::Kind::kWindowType1 ? IBV_MW_TYPE_1
                                                                                  : IBV_MW_TYPE_2)
                          .value();
      object.key = object.window->rkey;
    }
    objects_.push_back(object);
  }
}

// A key for each message of the peer that is to invalidate one.
void RcSide::MapInvalidated() {
  for (RcOperation& operation : peer_->operations_) {
    if (operation.opcode != IBV_WR_SEND_WITH_INV || operation.exposure != nullptr) continue;
    operation.invalidate = node_.worker().AllocFastMr(pd_, 1).value().key;
    invalidated_.push_back(operation.invalidate);
    if (!pd_->regions->Map(*pd_, {.key = operation.invalidate,
                                  .address = Address(target_start_),
                                  .length = 1,
                                  .iova = Address(target_start_),
                                  .access = IBV_ACCESS_REMOTE_READ})) {
      Violate("mapping a fast region");
    }
  }
}

void RcSide::Connect(const ibv_qp_attr& common) {
  ibv_qp_attr attr = common;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC | memory::kAccessFlushGlobal;
  attr.sq_psn = first_psn_;
  attr.rq_psn = peer_->first_psn_;
  const absl::Status status = BringToRts(node_, qp_, peer_->node_, peer_->qp_->qpn(), attr);
  if (!status.ok()) Violate(status.ToString());
  std::vector<uint32_t> packets;
  for (const RcOperation& operation : operations_) {
    if (operation.is_local()) continue;
    const uint32_t mtu = qp_->PathMtuBytes();
    uint32_t left = std::max(1u, (operation.length + mtu - 1) / mtu);
    // A long READ is several messages to the peer.
    const uint32_t most = operation.opcode == IBV_WR_RDMA_READ
                              ? transport::ReadRequestPackets(attr.max_rd_atomic, mtu)
                              : left;
    for (; left > most; left -= most) packets.push_back(most);
    packets.push_back(left);
  }
  msn_check_.emplace(Psn(first_psn_), peer_->first_msn_, packets);
  node_.worker().AddPoller(this);
}

void RcSide::CheckResponse(const wire::RocePacket& packet) {
  if (!packet.info->is_response || !msn_check_) return;
  if (const std::string wrong = msn_check_->Check(packet); !wrong.empty()) Violate(wrong);
}

std::vector<ibv_sge> RcSide::Split(size_t offset, uint32_t length, uint32_t key) {
  std::vector<ibv_sge> elements;
  const uint64_t count = 1 + random_.Below(kMaxElements);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t piece =
        i + 1 == count ? length : static_cast<uint32_t>(random_.Below(length + 1));
    elements.push_back({Address(offset), piece, key});
    offset += piece;
    length -= piece;
  }
  return elements;
}

bool RcSide::MayPost() {
  if (posted_ == operations_.size() || qp_->sq_tail() - qp_->sq_head() == depth_) return false;
  const int awaited = operations_[posted_].waits_for;
  if (awaited != 0 && !messages_received_.contains(awaited)) return false;
  // With nothing under way nobody would wake this side again.
  return qp_->sq_head() == qp_->sq_tail() || !random_.Chance(0.3);
}

bool RcSide::PostSends() {
  bool posted = false;
  while (MayPost()) {
    RcOperation& operation = operations_[posted_];
    const int flags = operation.flags | (operation.signaled ? IBV_SEND_SIGNALED : 0);
    const int error = operation.is_local()   ? PostLocal(operation, flags)
                      : operation.is_flush() ? PostFlush(operation, flags)
                                             : PostTransfer(operation, flags);
    if (error != 0) {
      Violate(absl::StrFormat("posting request %d: errno %d", posted_, error));
      break;
    }
    ++posted_;
    posted = true;
  }
  return posted;
}

int RcSide::PostTransfer(const RcOperation& operation, int flags) {
  const uint32_t key =
      operation.local_exposure != nullptr ? operation.local_exposure->key : local_.key;
  std::vector<ibv_sge> elements = Split(operation.local, operation.length, key);
  ibv_send_wr wr{};
  wr.wr_id = posted_;
  wr.sg_list = elements.data();
  wr.num_sge = static_cast<int>(elements.size());
  wr.opcode = operation.opcode;
  wr.send_flags = flags;
  wr.imm_data = operation.immediate;
  const ExposedRegion* exposure = operation.exposure.get();
  if (operation.opcode == IBV_WR_SEND_WITH_INV) {
    wr.invalidate_rkey = exposure != nullptr ? exposure->key : operation.invalidate;
  }
  if (operation.is_atomic()) {
    wr.wr.atomic = {.remote_addr = peer_->Address(peer_->words_start_ + 8 * operation.word),
                    .compare_add = operation.compare_add,
                    .swap = operation.swap,
                    .rkey = peer_->words_.key};
  }
  if (operation.is_atomic_write()) {
    elements = {{reinterpret_cast<uint64_t>(&operation.left), sizeof operation.left, 0}};
    wr.sg_list = elements.data();
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = peer_->Address(peer_->words_start_ + 8 * operation.word);
    wr.wr.rdma.rkey = peer_->words_.key;
  }
  if (operation.is_write() || operation.opcode == IBV_WR_RDMA_READ) {
    wr.wr.rdma.remote_addr = peer_->Address(operation.remote);
    wr.wr.rdma.rkey = exposure != nullptr    ? exposure->key
                      : operation.is_write() ? peer_->target_.key
                                             : peer_->source_.key;
  }
  return qp_->PostSend(&wr, nullptr);
}

// Of all that this side writes at the peer.
int RcSide::PostFlush(const RcOperation& operation, int flags) {
  verbs::FlushWorkRequest wr{};
  wr.wr_id = posted_;
  wr.opcode = verbs::kWrFlush;
  wr.send_flags = static_cast<unsigned>(flags);
  wr.wr.rdma.remote_addr = peer_->Address(peer_->target_start_);
  wr.wr.rdma.rkey = peer_->target_.key;
  wr.length = peer_->target_end_ - peer_->target_start_;
  wr.placement = wire::kFlushGlobal;
  wr.selectivity = operation.immediate % 2 == 0 ? wire::kFlushRange : wire::kFlushRegion;
  return qp_->PostSend(&wr, nullptr);
}

// A window of type 2 must differ from its last key.
uint32_t RcSide::NextVariant(const Object& object) {
  const auto step = static_cast<uint32_t>(1 + random_.Below(255));
  return (object.key & ~0xFFu) | ((object.key + step) & 0xFF);
}

int RcSide::PostLocal(RcOperation& operation, int flags) {
  ExposedRegion& exposure = *operation.exposure;
  Object& object = objects_[exposure.object];
  if (operation.opcode == verbs::kWrRegMr) {
    verbs::RegisterWorkRequest wr{};
    wr.wr_id = posted_;
    wr.opcode = verbs::kWrRegMr;
    wr.send_flags = flags;
    exposure.key = object.key = NextVariant(object);
    wr.mapping = {
        .key = exposure.key,
        .address = Address(exposure.offset),
        .length = exposure.length,
        .iova = Address(exposure.offset),
        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    return qp_->PostSend(&wr, nullptr);
  }
  ibv_send_wr wr{};
  wr.wr_id = posted_;
  wr.opcode = operation.opcode;
  wr.send_flags = flags;
  if (operation.opcode == IBV_WR_LOCAL_INV) {
    wr.invalidate_rkey = exposure.key;
    last_revoked_ = operation.exposure;
    return qp_->PostSend(&wr, nullptr);
  }
  return PostBind(exposure, object, exposure.key != 0, &wr);
}

int RcSide::PostBind(ExposedRegion& exposure, const Object& object, bool unbind, ibv_send_wr* wr) {
  ibv_mr region{};
  region.lkey = exposed_.key;
  const ibv_mw_bind_info info{.mr = &region,
                              .addr = Address(exposure.offset),
                              .length = unbind ? 0 : exposure.length,
                              .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
  int error;
  if (object.kind == ExposedRegion::Kind::kWindowType1) {
    const ibv_mw_bind bind{.wr_id = wr->wr_id,
                           .send_flags = static_cast<unsigned int>(wr->send_flags),
                           .bind_info = info};
    error = node_.worker().BindMw(qp_, object.window, bind);
  } else {
    wr->bind_mw = {.mw = object.window, .rkey = NextVariant(object), .bind_info = info};
    error = qp_->PostSend(wr, nullptr);
    if (error == 0) object.window->rkey = wr->bind_mw.rkey;
  }
  objects_[exposure.object].key = object.window->rkey;
  if (!unbind) exposure.key = object.window->rkey;
  return error;
}

// One at a time and often late: the peer then meets RNR, and by trying again wakes this side.
bool RcSide::PostReceives() {
  if (receives_posted_ == receives_.size() || receives_posted_ - received_ == depth_ ||
      random_.Chance(0.7)) {
    return false;
  }
  const RcOperation& operation = *receives_[receives_posted_];
  std::vector<ibv_sge> elements = Split(operation.receive, operation.receive_size, local_.key);
  ibv_recv_wr wr{};
  wr.wr_id = receives_posted_;
  wr.sg_list = elements.data();
  wr.num_sge = static_cast<int>(elements.size());
  if (const int error = qp_->PostRecv(&wr, nullptr); error != 0) {
    Violate(absl::StrFormat("posting receive %d: errno %d", receives_posted_, error));
    return false;
  }
  ++receives_posted_;
  return true;
}

// A drained send queue returns to RTS at once: nothing would wake this side later.
bool RcSide::Drain() {
  ibv_qp_attr attr{};
  if (qp_->state() == IBV_QPS_RTS && posted_ < operations_.size() && random_.Chance(kDrainChance)) {
    attr.qp_state = IBV_QPS_SQD;
  } else if (qp_->state() == IBV_QPS_SQD && qp_->attr.sq_draining == 0) {
    attr.qp_state = IBV_QPS_RTS;
    ++drained_;
  } else {
    return false;
  }
  const absl::Status status = node_.worker().ModifyQp(qp_, attr, IBV_QP_STATE);
  if (!status.ok()) Violate(status.ToString());
  return true;
}

bool RcSide::Poll(uint64_t now_ns) {
  bool worked = false;
  ibv_wc completions[16];
  while (const int count = cq_->Poll(16, completions)) {
    for (int i = 0; i < count; ++i) OnCompletion(completions[i], now_ns);
    worked = true;
  }
  if (stale_phase_) return worked;
  worked |= Drain();
  worked |= PostReceives();
  worked |= PostSends();
  return worked;
}

void RcSide::OnCompletion(const ibv_wc& wc, uint64_t now_ns) {
  for (const uint64_t value : {now_ns, wc.wr_id, uint64_t{wc.status}, uint64_t{wc.opcode}}) {
    log_->Digest(value);
  }
  if (wc.wr_id >= kStaleWrId) {
    // The refusal may be lost; the peer, by then in error, does not repeat it.
    const bool right = stale_completions_++ == 0
                           ? wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_RETRY_EXC_ERR
                           : wc.status == IBV_WC_WR_FLUSH_ERR;
    if (!right) Violate(absl::StrFormat("WRITE by a stale key: status %d", wc.status));
    return;
  }
  if (wc.status != IBV_WC_SUCCESS) {
    Violate(absl::StrFormat("request %d: status %d", wc.wr_id, wc.status));
  } else if (wc.qp_num != qp_->qpn().value) {
    Violate("completion of a foreign queue pair");
  } else if ((wc.opcode & IBV_WC_RECV) != 0) {
    OnReceived(wc);
  } else if (wc.wr_id < completed_ || wc.wr_id >= posted_) {
    Violate(absl::StrFormat("request %d completes when %d to %d are due", wc.wr_id, completed_,
                            posted_));
  } else {
    while (completed_ <= wc.wr_id) {
      // What is signaled reports itself.
      if (operations_[completed_].signaled && completed_ != wc.wr_id) {
        Violate(absl::StrFormat("request %d passed over", completed_));
      }
      OnSent(operations_[completed_++]);
    }
  }
}

void RcSide::OnSent(const RcOperation& operation) {
  if (operation.is_local()) {
    OnLocal(operation);
  } else if (operation.opcode == IBV_WR_RDMA_READ) {
    arena_->Expect(operation.local, peer_->arena_->at(operation.remote), operation.length);
    if (!arena_->HoldsWhatIsExpected(operation.local, operation.length)) {
      Violate("READ brought wrong bytes");
    }
  } else if (operation.changes_word()) {
    const auto bytes = [](const uint64_t& value) {
      return reinterpret_cast<const uint8_t*>(&value);
    };
    if (operation.is_atomic()) arena_->Expect(operation.local, bytes(operation.found), 8);
    if (!arena_->HoldsWhatIsExpected(operation.local, 8)) Violate("atomic found a wrong value");
    peer_->arena_->Expect(peer_->words_start_ + 8 * operation.word, bytes(operation.left), 8);
  } else if (operation.is_write()) {
    peer_->arena_->Expect(operation.remote, arena_->at(operation.local), operation.length);
    if (!peer_->arena_->HoldsWhatIsExpected(operation.remote, operation.length)) {
      Violate("WRITE completed with wrong bytes at the target");
    }
  }
}

bool RcSide::KeyWorks(uint32_t key) const {
  const memory::MemoryRegion* region = pd_->regions->Find(key);
  return region != nullptr && region->mapped;
}

// The object may serve the next exposure already, under another variant.
void RcSide::OnLocal(const RcOperation& operation) {
  ExposedRegion& exposure = *operation.exposure;
  const bool takes_back = operation.opcode == IBV_WR_LOCAL_INV ||
                          (operation.opcode == IBV_WR_BIND_MW && exposure.known);
  if (takes_back && KeyWorks(exposure.key)) Violate("memory that was taken back is still shown");
  if (!takes_back) exposure.known = true;
}

void RcSide::OnReceived(const ibv_wc& wc) {
  if (wc.wr_id != received_ || received_ >= receives_posted_) {
    Violate(absl::StrFormat("receive %d completes when %d is due", wc.wr_id, received_));
    return;
  }
  const RcOperation& operation = *receives_[received_++];
  const bool is_write = operation.is_write();
  if (wc.opcode != (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
      wc.byte_len != operation.length ||
      ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != operation.has_immediate() ||
      (operation.has_immediate() && wc.imm_data != operation.immediate)) {
    Violate(absl::StrFormat("receive %d: opcode %d, %d bytes instead of %d", wc.wr_id, wc.opcode,
                            wc.byte_len, operation.length));
  }
  CheckInvalidated(operation, wc);
  if (operation.message != 0) messages_received_.insert(operation.message);
  const size_t place = is_write ? operation.remote : operation.receive;
  arena_->Expect(place, peer_->arena_->at(operation.local), operation.length);
  if (!arena_->HoldsWhatIsExpected(place, operation.length)) {
    Violate(absl::StrFormat("receive %d: wrong bytes", wc.wr_id));
  }
}

void RcSide::CheckInvalidated(const RcOperation& operation, const ibv_wc& wc) {
  const bool wanted = operation.opcode == IBV_WR_SEND_WITH_INV;
  if (wanted != ((wc.wc_flags & IBV_WC_WITH_INV) != 0)) Violate("IBV_WC_WITH_INV is wrong");
  if (!wanted) return;
  const bool exposed = operation.exposure != nullptr;
  const uint32_t key = exposed ? operation.exposure->key : operation.invalidate;
  if (wc.invalidated_rkey != key) Violate("another key was invalidated");
  if (KeyWorks(key)) Violate("the key still works after its invalidation");
  if (exposed) last_revoked_ = operation.exposure;
}

bool RcSide::finished() const {
  return completed_ == operations_.size() && received_ == receives_.size();
}

std::string RcSide::Progress() const {
  return absl::StrFormat(
      "%s: %d of %d requests posted, %d completed; %d of %d receives posted, %d "
      "completed; send queue %d to %d",
      name_, posted_, operations_.size(), completed_, receives_posted_, receives_.size(), received_,
      qp_->sq_head(), qp_->sq_tail());
}

uint32_t RcSide::MakeStaleKey() {
  if (last_revoked_ != nullptr && random_.Chance(0.5)) return last_revoked_->key;
  const memory::MemoryRegion region =
      node_.worker()
          .RegMr(pd_, arena_->at(target_start_), target_end_ - target_start_,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
          .value();
  if (!node_.worker().DeregMr(region).ok()) Violate("deregistering fails");
  return region.key;
}

void RcSide::PostStale(uint32_t key, uint64_t address) {
  stale_phase_ = true;
  ibv_sge element{Address(kRcGuardBytes), 1, local_.key};
  ibv_send_wr wr[2] = {};
  for (int i = 0; i < 2; ++i) {
    wr[i].wr_id = kStaleWrId + i;
    wr[i].sg_list = &element;
    wr[i].num_sge = 1;
    wr[i].opcode = IBV_WR_RDMA_WRITE;
    wr[i].send_flags = IBV_SEND_SIGNALED;
    wr[i].wr.rdma.remote_addr = address;
    wr[i].wr.rdma.rkey = key;
  }
  wr[0].next = &wr[1];
  if (qp_->PostSend(wr, nullptr) != 0) Violate("posting the WRITE by a stale key");
}

void RcSide::Finish() {
  if (const std::string difference = arena_->Difference(); !difference.empty()) {
    Violate(absl::StrCat("memory outside of all messages changed: ", difference));
  }
  engine::Worker& worker = node_.worker();
  worker.RemovePoller(this);
  for (const uint32_t key : invalidated_) {
    if (!worker.DeregMr({.key = key}).ok()) Violate("a fast region cannot be deregistered");
  }
  for (const Object& object : objects_) {
    const absl::Status status = object.window != nullptr ? worker.DeallocMw(object.window)
                                                         : worker.DeregMr({.key = object.key});
    if (!status.ok()) Violate(status.ToString());
  }
  for (const auto* region : {&local_, &target_, &exposed_, &source_, &words_}) {
    if (!worker.DeregMr(*region).ok()) Violate("a region cannot be deregistered");
  }
  for (const absl::Status& status :
       {worker.DestroyQp(qp_), worker.DestroyCq(cq_), worker.DeallocPd(pd_)}) {
    if (!status.ok()) Violate(status.ToString());
  }
  const transport::Counters& counters = worker.counters();
  log_->Digest(counters.sent_pkts);
  log_->Digest(counters.rcvd_bytes);
  log_->Digest(counters.retransmitted_pkts);
}

}  // namespace pollux::sim
