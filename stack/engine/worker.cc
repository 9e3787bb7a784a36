#include "stack/engine/worker.h"

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_format.h"
#include "stack/wire/roce_packet.h"

namespace pollux::engine {
namespace {

constexpr unsigned kPoolCache = 128;
// IB specification 16.4: the Q_Key of every GSI queue pair.
constexpr uint32_t kGsiQkey = 0x80010000;

std::string UniqueName(const char* what, uint32_t index) {
  static std::atomic<uint32_t> count{0};
  return absl::StrFormat("%s%u_%u", what, index, count++);
}

}  // namespace

// A place for one queue pair. While its number is in time-wait, `endpoint` is null.
struct Worker::Slot {
  Slot(Worker* owner, uint32_t slot_index)
      : worker(owner), index(slot_index), timer(&Worker::OnSlotTimer, this) {}
  Worker* worker;
  uint32_t index;
  Qpn qpn;
  Timer timer;
  bool quarantined = false;
  bool eventful = false;
  std::unique_ptr<transport::Endpoint> endpoint;
};

Worker::Port::Port(net::Interface* interface, transport::Link* link, rte_mempool* pool,
                   transport::Counters* counters)
    : interface(interface),
      link(link),
      egress(link, pool, counters),
      timer(&Worker::OnInterfaceTimer, this) {}

Worker::Worker(const WorkerConfig& config)
    : Party(UniqueName("worker", config.index)),
      config_(config),
      random_(config.seed),
      wheel_(config.start_ns),
      now_ns_(config.start_ns),
      regions_(config.max_regions, &random_) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Create(const WorkerConfig& config) {
  const uint32_t index_limit = 1u << config.qpn_layout.index_bits;
  if (config.index >= 1u << config.qpn_layout.worker_bits || config.max_queue_pairs < 2 ||
      config.max_queue_pairs > index_limit) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "worker %u with %u queue pairs does not fit the queue pair number layout "
        "(%u workers, 2 to %u queue pairs)",
        config.index, config.max_queue_pairs, 1u << config.qpn_layout.worker_bits, index_limit));
  }
  std::unique_ptr<Worker> worker(new Worker(config));
  worker->packet_pool_ = rte_pktmbuf_pool_create(
      UniqueName("packets", config.index).c_str(), config.packet_buffers, kPoolCache, 0,
      RTE_PKTMBUF_HEADROOM + config.max_frame_bytes, SOCKET_ID_ANY);
  if (worker->packet_pool_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "worker %u: no memory for %u packet buffers of %u bytes; give DPDK more (-m)", config.index,
        config.packet_buffers, config.max_frame_bytes));
  }
  worker->slots_.resize(config.max_queue_pairs);
  // The last is taken first; the order of first use does not matter, reuse is last in, first out
  // but for the quarantine.
  for (uint32_t i = config.max_queue_pairs - 1; i > kGsiIndex; --i) {
    worker->free_slots_.push_back(i);
  }
  return worker;
}

Worker::~Worker() {
  slots_.clear();
  ports_.clear();
  rte_mempool_free(packet_pool_);
}

void Worker::AddPort(net::Interface* interface, transport::Link* link) {
  ports_.push_back(std::make_unique<Port>(interface, link, packet_pool_, &counters_));
  ports_.back()->worker = this;
}

transport::PollContext Worker::Context(Port& port) {
  return {.now_ns = now_ns_,
          .egress = port.egress,
          .counters = counters_,
          .random = random_,
          .resolver = port.interface};
}

bool Worker::Poll(uint64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  bool worked = false;
  for (auto& port : ports_) worked |= Receive(*port);
  worked |= wheel_.Advance(now_ns_) > 0;
  worked |= RunMailbox() > 0;
  // By index: a poller may add and remove pollers.
  for (size_t i = 0; i < pollers_.size(); ++i) worked |= pollers_[i]->Poll(now_ns_);
  DeliverEvents();
  worked |= Transmit();
  DeliverEvents();
  for (auto& port : ports_) {
    ArmInterface(*port);
    port->egress.Flush(now_ns_);
  }
  return worked;
}

bool Worker::Receive(Port& port) {
  rte_mbuf* frames[kBurst];
  const uint16_t count = port.link->Receive(frames, kBurst, now_ns_);
  counters_.rcvd_pkts += count;
  for (uint16_t i = 0; i < count; ++i) {
    if (i + 1 < count) rte_prefetch0(rte_pktmbuf_mtod(frames[i + 1], void*));
    OnFrame(port, frames[i]);
  }
  return count > 0;
}

void Worker::OnFrame(Port& port, rte_mbuf* frame) {
  counters_.rcvd_bytes += frame->pkt_len;
  if (frame->nb_segs != 1) [[unlikely]] {
    counters_.Count(transport::Drop::kScattered);
    rte_pktmbuf_free(frame);
    return;
  }
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  transport::PollContext context = Context(port);
  wire::RocePacket packet;
  const wire::ParseResult result = wire::ParseRocePacket(bytes, frame->data_len, &packet);
  if (result == wire::ParseResult::kNotRoce) {
    port.interface->OnFrame(frame, context);
    return;
  }
  if (result != wire::ParseResult::kOk) {
    CountParse(result);
  } else if (!port.interface->IsOurs(bytes, packet.destination())) {
    counters_.Count(transport::Drop::kNotForUs);
  } else if (Slot* slot = FindSlot(packet.bth.dest_qpn)) {
    slot->endpoint->OnPacket(packet, context);
    Touch(*slot);
  }
  rte_pktmbuf_free(frame);
}

void Worker::CountParse(wire::ParseResult result) {
  using transport::Drop;
  static constexpr Drop kDrops[] = {
      Drop::kTruncated,  // kOk, never asked for
      Drop::kTruncated,  // kNotRoce, likewise
      Drop::kTruncated,     Drop::kBadIpHeader,   Drop::kBadUdpLength, Drop::kBadUdpChecksum,
      Drop::kBadBthVersion, Drop::kUnknownOpcode, Drop::kBadPad,
  };
  static_assert(std::size(kDrops) == static_cast<size_t>(wire::ParseResult::kBadPad) + 1);
  counters_.Count(kDrops[static_cast<size_t>(result)]);
}

// The slot that answers to `qpn`; null, and counted, when there is none.
Worker::Slot* Worker::FindSlot(Qpn qpn) {
  const QpnLayout& layout = config_.qpn_layout;
  const bool gsi = qpn == kGsiQpn;
  if (!gsi && layout.worker(qpn) != config_.index) {
    counters_.Count(transport::Drop::kUnknownQpn);
    return nullptr;
  }
  const uint32_t index = gsi ? kGsiIndex : layout.index(qpn);
  Slot* slot = index < slots_.size() ? slots_[index].get() : nullptr;
  if (slot == nullptr || slot->endpoint == nullptr) {
    counters_.Count(transport::Drop::kUnknownQpn);
    return nullptr;
  }
  if (slot->qpn != qpn) {
    counters_.Count(transport::Drop::kStaleQpn);
    return nullptr;
  }
  return slot;
}

// After each call into an endpoint: its deadline may have moved, it may have raised events. A timer
// that would fire too early is left alone and re-armed when it fires.
void Worker::Touch(Slot& slot) {
  const uint64_t deadline = slot.endpoint->deadline_ns();
  if (deadline != transport::Endpoint::kNever &&
      (!slot.timer.armed() || slot.timer.deadline_ns() > deadline)) {
    wheel_.Arm(slot.timer, deadline);
  }
  if (slot.endpoint->qp.has_events() && !slot.eventful) {
    slot.eventful = true;
    eventful_.push_back(slot.qpn);
  }
}

void Worker::OnSlotTimer(void* context, uint64_t now_ns) {
  Slot& slot = *static_cast<Slot*>(context);
  Worker& worker = *slot.worker;
  if (slot.quarantined) {
    slot.quarantined = false;
    worker.free_slots_.push_back(slot.index);
    return;
  }
  worker.now_ns_ = std::max(worker.now_ns_, now_ns);
  transport::PollContext poll = worker.Context(*worker.ports_[0]);
  slot.endpoint->OnDeadline(poll);
  worker.Touch(slot);
}

void Worker::OnInterfaceTimer(void* context, uint64_t) {
  Port& port = *static_cast<Port*>(context);
  transport::PollContext poll = port.worker->Context(port);
  port.interface->OnDeadline(poll);
}

void Worker::ArmInterface(Port& port) {
  const uint64_t deadline = port.interface->deadline_ns();
  if (deadline != transport::Endpoint::kNever &&
      (!port.timer.armed() || port.timer.deadline_ns() > deadline)) {
    wheel_.Arm(port.timer, deadline);
  }
}

bool Worker::Transmit() {
  if (active_.empty()) return false;
  Port& port = *ports_[0];
  transport::PollContext context = Context(port);
  verbs::QueuePair* first_again = nullptr;
  while (port.egress.room() > 0) {
    verbs::QueuePair* qp = active_.Pop();
    if (qp == nullptr) break;
    if (qp == first_again) {  // everyone has had a turn in this poll
      active_.Push(qp);
      break;
    }
    transport::Endpoint* endpoint = transport::Endpoint::Of(qp);
    const bool more = endpoint->Transmit(context, kTransmitBudget);
    if (more) {
      active_.Push(qp);
      if (first_again == nullptr) first_again = qp;
    }
    Touch(*slots_[qp->qpn() == kGsiQpn ? kGsiIndex : config_.qpn_layout.index(qp->qpn())]);
  }
  return true;
}

void Worker::DeliverEvents() {
  if (eventful_.empty()) [[likely]]
    return;
  std::vector<Qpn> due;
  due.swap(eventful_);
  for (Qpn qpn : due) {
    const uint32_t index = qpn == kGsiQpn ? kGsiIndex : config_.qpn_layout.index(qpn);
    Slot* slot = slots_[index].get();
    if (slot == nullptr || slot->endpoint == nullptr || slot->qpn != qpn) continue;
    slot->eventful = false;
    slot->endpoint->qp.DeliverEvents();
  }
}

void Worker::AddPoller(Poller* poller) { pollers_.push_back(poller); }

void Worker::RemovePoller(Poller* poller) { std::erase(pollers_, poller); }

absl::StatusOr<memory::ProtectionDomain*> Worker::AllocPd() {
  auto pd = std::make_unique<memory::ProtectionDomain>();
  pd->regions = &regions_;
  pd->handle = next_pd_handle_++;
  memory::ProtectionDomain* raw = pd.get();
  pds_.emplace(raw, std::move(pd));
  return raw;
}

absl::Status Worker::DeallocPd(memory::ProtectionDomain* pd) {
  if (pd->use_count != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "protection domain %u still has %u users (regions, queue pairs, address handles)",
        pd->handle, pd->use_count));
  }
  pds_.erase(pd);
  return absl::OkStatus();
}

absl::StatusOr<memory::MemoryRegion> Worker::RegMr(memory::ProtectionDomain* pd, void* address,
                                                   uint64_t length, int access) {
  return regions_.Register(pd, address, length, access);
}

absl::Status Worker::DeregMr(const memory::MemoryRegion& region) {
  return regions_.Deregister(region.key);
}

absl::StatusOr<verbs::CompletionQueue*> Worker::CreateCq(uint32_t entries) {
  if (entries == 0 || entries > verbs::CompletionQueue::kMaxEntries) {
    return absl::InvalidArgumentError(
        absl::StrFormat("completion queue of %u entries asked for; 1 to %u are allowed", entries,
                        verbs::CompletionQueue::kMaxEntries));
  }
  auto cq = std::make_unique<verbs::CompletionQueue>(entries);
  verbs::CompletionQueue* raw = cq.get();
  cqs_.emplace(raw, std::move(cq));
  return raw;
}

absl::Status Worker::DestroyCq(verbs::CompletionQueue* cq) {
  if (cq->use_count != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("completion queue still serves %u queue pairs", cq->use_count));
  }
  cqs_.erase(cq);
  return absl::OkStatus();
}

absl::StatusOr<verbs::AddressHandle*> Worker::CreateAh(memory::ProtectionDomain* pd,
                                                       const ibv_ah_attr& attr) {
  transport::PollContext context = Context(*ports_[0]);
  absl::StatusOr<verbs::AddressHandle> made = interface().MakeAddressHandle(attr, context);
  if (!made.ok()) return made.status();
  auto ah = std::make_unique<verbs::AddressHandle>(*made);
  ah->pd = reinterpret_cast<ibv_pd*>(pd);
  ++pd->use_count;
  verbs::AddressHandle* raw = ah.get();
  ahs_.emplace(raw, std::move(ah));
  return raw;
}

absl::Status Worker::DestroyAh(verbs::AddressHandle* ah) {
  --reinterpret_cast<memory::ProtectionDomain*>(ah->pd)->use_count;
  ahs_.erase(ah);
  return absl::OkStatus();
}

absl::StatusOr<verbs::QueuePair*> Worker::Place(uint32_t index, Qpn qpn,
                                                verbs::QueuePairInitAttr init) {
  if (init.pd == nullptr || init.send_cq == nullptr || init.recv_cq == nullptr) {
    return absl::InvalidArgumentError(
        "queue pair: a protection domain and both completion queues are needed");
  }
  if (init.cap.max_send_wr > verbs::kMaxWorkRequests ||
      init.cap.max_recv_wr > verbs::kMaxWorkRequests || init.cap.max_send_sge > verbs::kMaxSge ||
      init.cap.max_recv_sge > verbs::kMaxSge || init.cap.max_inline_data > verbs::kMaxInline) {
    return absl::InvalidArgumentError(
        absl::StrFormat("queue pair: at most %u work requests, %u elements, %u inline bytes",  //
                        verbs::kMaxWorkRequests, verbs::kMaxSge, verbs::kMaxInline));
  }
  ++init.pd->use_count;
  ++init.send_cq->use_count;
  ++init.recv_cq->use_count;
  if (slots_[index] == nullptr) slots_[index] = std::make_unique<Slot>(this, index);
  Slot& slot = *slots_[index];
  slot.qpn = qpn;
  slot.eventful = false;
  slot.endpoint = std::make_unique<transport::Endpoint>(qpn, std::move(init), &active_);
  return &slot.endpoint->qp;
}

absl::StatusOr<verbs::QueuePair*> Worker::CreateQp(verbs::QueuePairInitAttr init) {
  if (init.type != IBV_QPT_RC && init.type != IBV_QPT_UD) {
    return absl::InvalidArgumentError("queue pair: only RC and UD are supported");
  }
  if (free_slots_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("queue pair: all %u of worker %u are in use or in time-wait",
                        config_.max_queue_pairs - 1, config_.index));
  }
  const uint32_t index = free_slots_.back();
  Qpn qpn;
  do {
    qpn = config_.qpn_layout.Make(config_.index, random_.Next32(), index);
  } while (qpn == kMulticastQpn || (slots_[index] != nullptr && slots_[index]->qpn == qpn));
  absl::StatusOr<verbs::QueuePair*> qp = Place(index, qpn, std::move(init));
  if (qp.ok()) free_slots_.pop_back();
  return qp;
}

absl::StatusOr<verbs::QueuePair*> Worker::CreateGsiQp(verbs::QueuePairInitAttr init) {
  if (slots_[kGsiIndex] != nullptr && slots_[kGsiIndex]->endpoint != nullptr) {
    return absl::AlreadyExistsError("queue pair 1 exists already on this worker");
  }
  init.type = IBV_QPT_UD;
  absl::StatusOr<verbs::QueuePair*> qp = Place(kGsiIndex, kGsiQpn, std::move(init));
  if (!qp.ok()) return qp;
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qkey = kGsiQkey;
  attr.sq_psn = random_.Next32() & Psn::kMask;
  const struct {
    ibv_qp_state state;
    int mask;
  } kSteps[] = {{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
                {IBV_QPS_RTR, 0},
                {IBV_QPS_RTS, IBV_QP_SQ_PSN}};
  for (const auto& step : kSteps) {
    attr.qp_state = step.state;
    if (absl::Status status = ModifyQp(*qp, attr, step.mask | IBV_QP_STATE); !status.ok()) {
      return status;
    }
  }
  return qp;
}

absl::Status Worker::ModifyQp(verbs::QueuePair* qp, const ibv_qp_attr& attr, int mask) {
  transport::PollContext context = Context(*ports_[0]);
  if ((mask & IBV_QP_AV) != 0) {
    absl::StatusOr<verbs::AddressHandle> path =
        interface().MakeAddressHandle(attr.ah_attr, context);
    if (!path.ok()) return path.status();
    qp->path = *path;
  }
  const absl::Status status = transport::Endpoint::Of(qp)->Modify(attr, mask, context);
  Touch(*slots_[qp->qpn() == kGsiQpn ? kGsiIndex : config_.qpn_layout.index(qp->qpn())]);
  return status;
}

absl::Status Worker::DestroyQp(verbs::QueuePair* qp, uint64_t time_wait_ns) {
  const bool gsi = qp->qpn() == kGsiQpn;
  Slot& slot = *slots_[gsi ? kGsiIndex : config_.qpn_layout.index(qp->qpn())];
  --qp->init().pd->use_count;
  --qp->init().send_cq->use_count;
  --qp->init().recv_cq->use_count;
  slot.timer.Cancel();
  slot.endpoint.reset();
  if (gsi) return absl::OkStatus();
  if (time_wait_ns == 0) {
    free_slots_.push_back(slot.index);
  } else {
    slot.quarantined = true;
    wheel_.Arm(slot.timer, now_ns_ + time_wait_ns);
  }
  return absl::OkStatus();
}

}  // namespace pollux::engine
